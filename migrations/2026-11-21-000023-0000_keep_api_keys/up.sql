-- What keys need to be used: which key of the ring their hash was made with, who made and who revoked them.
--
-- Scopes have no CHECK of their words: during an upgrade the newer release may write one that the older does not know, to which
-- it then grants nothing.
ALTER TABLE api_keys ADD COLUMN hash_key_id text;
ALTER TABLE api_keys ADD COLUMN created_src text NOT NULL DEFAULT 'sql';
ALTER TABLE api_keys ADD COLUMN revoked_src text;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_revoked_src_check CHECK (revoked_src IS NULL OR revoked_at IS NOT NULL);
ALTER TABLE api_keys ADD CONSTRAINT api_keys_key_prefix_check CHECK (key_prefix ~ '^sched_[a-z0-9]{1,16}_[a-z2-7]{16}$');
ALTER TABLE api_keys ADD CONSTRAINT api_keys_key_of_tenant_has_scopes_check CHECK (user_id IS NOT NULL OR cardinality(scopes) > 0);
COMMENT ON COLUMN api_keys.hash_key_id IS 'Key of the key ring that the hash was made with; NULL when there was no ring.';
COMMENT ON COLUMN api_keys.created_src IS 'Whose e-mail, which key or which component made it.';
COMMENT ON COLUMN api_keys.revoked_src IS 'Whose e-mail, which key or which component revoked it; NULL while it is valid.';
COMMENT ON COLUMN api_keys.scopes      IS 'What the key may do, of what its owner may; empty means all of that. What a key of the tenant may do is its scopes.';

COMMENT ON COLUMN users.is_system_operator IS 'May operate the installation itself: tenants, users, leadership, workers, keys of secrets.';
COMMENT ON COLUMN memberships.role IS 'viewer reads, operator also runs and pauses, admin also changes, owner also manages people.';
