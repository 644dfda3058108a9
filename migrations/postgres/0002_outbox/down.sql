-- Forward only: a log that could be taken away by mistake would not be one.
SELECT 1;
