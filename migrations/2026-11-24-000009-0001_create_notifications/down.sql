DROP TABLE notification_cursor;
DROP TABLE notification_holds;
DROP TABLE notification_deliveries;
DROP TABLE notification_rules;
DROP TABLE notification_channels;
