-- Uses the keys of sign_ins_admit.sql.
SELECT forgive_sign_in(sha256(convert_to('account ' || lower($1), 'UTF8')), $2)
