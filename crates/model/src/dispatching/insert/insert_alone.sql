SELECT id FROM created
