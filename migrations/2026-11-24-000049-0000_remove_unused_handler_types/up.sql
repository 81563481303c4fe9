-- No worker runs functions of type `celery` or `sql`, and the API never accepted them.
ALTER TABLE task_functions
    DROP CONSTRAINT task_functions_handler_type_check,
    ADD CONSTRAINT task_functions_handler_type_check CHECK (handler_type IN ('process', 'http', 'native'));
