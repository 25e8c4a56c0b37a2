-- PostgreSQL gathers its own statistics.
SELECT 1;
