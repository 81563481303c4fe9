COMMENT ON COLUMN memberships.role IS 'viewer reads, operator runs and pauses, admin changes, owner also manages people.';
COMMENT ON COLUMN users.is_system_operator IS 'May operate the installation itself: instances, workers, tenants.';

COMMENT ON COLUMN api_keys.scopes      IS 'What the key may do; empty means all its owner may.';
ALTER TABLE api_keys DROP CONSTRAINT api_keys_key_of_tenant_has_scopes_check;
ALTER TABLE api_keys DROP CONSTRAINT api_keys_key_prefix_check;
ALTER TABLE api_keys DROP CONSTRAINT api_keys_revoked_src_check;
ALTER TABLE api_keys DROP COLUMN revoked_src;
ALTER TABLE api_keys DROP COLUMN created_src;
ALTER TABLE api_keys DROP COLUMN hash_key_id;
