DROP FUNCTION change_own_password(uuid, text, text);
DROP FUNCTION note_sign_in(uuid, text);
DROP FUNCTION forgive_sign_in(bytea, bytea);
DROP FUNCTION admit_sign_in(bytea, bytea);
DROP FUNCTION find_account(text);
DROP FUNCTION find_session(uuid);
DROP FUNCTION find_user(text);
DROP FUNCTION find_member(text, text);
DROP FUNCTION find_api_key(text);
