ALTER TABLE task_functions
    DROP CONSTRAINT task_functions_handler_type_check,
    ADD CONSTRAINT task_functions_handler_type_check
        CHECK (handler_type IN ('process', 'http', 'native', 'celery', 'sql'));
