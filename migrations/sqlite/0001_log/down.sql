-- Forward only: a log is not undone.
SELECT 1;
