-- The user of the workers that compose.yaml starts, with the password in the variable WORKER_PASSWORD; for psql, after
-- worker-role.sql.
\getenv password WORKER_PASSWORD
SELECT 'CREATE ROLE worker LOGIN IN ROLE wavewright_worker'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'worker') \gexec
ALTER ROLE worker PASSWORD :'password';
