-- SQLite always finds a whole key by the key's own index.
SELECT 1;
