-- Least rights in PostgreSQL for workers of the fleet. Apply it as a superuser, or as the owner of the database if that
-- may create roles, after the first run with `fleet` in the settings has made the tables; applying it again changes
-- nothing:
--
--   sudo -u postgres psql --single-transaction --set=ON_ERROR_STOP=1 --file=- wavewright < docs/deploy/worker-role.sql
--
-- Then give each group of workers that trust one another a user of its own:
--
--   CREATE ROLE worker_gpu LOGIN PASSWORD '…' IN ROLE wavewright_worker;
--
-- Such a user sees the calls that wait for an answer and those that it has begun itself, with what their runs' tools
-- are made with. It cannot read events, results, jobs, messages or decisions.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'wavewright_worker') THEN
        CREATE ROLE wavewright_worker NOLOGIN;
    END IF;
END $$;

-- The queue holds only the ids of calls.
GRANT USAGE ON SCHEMA wavewright_fleet TO wavewright_worker;
GRANT SELECT, UPDATE, DELETE ON wavewright_fleet.pgqueuer TO wavewright_worker;
GRANT INSERT ON wavewright_fleet.pgqueuer_log TO wavewright_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON wavewright_fleet.worker TO wavewright_worker;

ALTER TABLE wavewright_fleet.call ENABLE ROW LEVEL SECURITY;
GRANT SELECT, UPDATE (begun, worker, db_user, answer) ON wavewright_fleet.call TO wavewright_worker;
DROP POLICY IF EXISTS worker_reads ON wavewright_fleet.call;
CREATE POLICY worker_reads ON wavewright_fleet.call FOR SELECT TO wavewright_worker
    USING (answer IS NULL OR db_user = current_user);
DROP POLICY IF EXISTS worker_writes ON wavewright_fleet.call;
CREATE POLICY worker_writes ON wavewright_fleet.call FOR UPDATE TO wavewright_worker
    USING (answer IS NULL) WITH CHECK (db_user = current_user);

ALTER TABLE wavewright_fleet.goal ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON wavewright_fleet.goal TO wavewright_worker;
DROP POLICY IF EXISTS worker_reads ON wavewright_fleet.goal;
CREATE POLICY worker_reads ON wavewright_fleet.goal FOR SELECT TO wavewright_worker
    USING (EXISTS (SELECT FROM wavewright_fleet.call WHERE call.run = goal.run));

ALTER TABLE wavewright_fleet.emission ENABLE ROW LEVEL SECURITY;
GRANT SELECT, INSERT ON wavewright_fleet.emission TO wavewright_worker;
DROP POLICY IF EXISTS worker_writes ON wavewright_fleet.emission;
CREATE POLICY worker_writes ON wavewright_fleet.emission TO wavewright_worker
    USING (EXISTS (SELECT FROM wavewright_fleet.call WHERE call.id = emission.call AND db_user = current_user));

-- Budgets of models: what calls cost, with the names of jobs and steps. Needed by workers that ask models.
GRANT USAGE ON SCHEMA wavewright TO wavewright_worker;
GRANT SELECT ON wavewright.format TO wavewright_worker;
GRANT SELECT, INSERT, UPDATE ON wavewright.model_call, wavewright.budget_total TO wavewright_worker;
GRANT SELECT (no, owner) ON wavewright.run TO wavewright_worker;
-- A session is the connection of one process; a user has those that it opened itself.
ALTER TABLE wavewright.session ADD COLUMN IF NOT EXISTS db_user name DEFAULT current_user;
ALTER TABLE wavewright.session ENABLE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON wavewright.session TO wavewright_worker;
DROP POLICY IF EXISTS worker_has_its_own ON wavewright.session;
CREATE POLICY worker_has_its_own ON wavewright.session TO wavewright_worker USING (db_user = current_user);
