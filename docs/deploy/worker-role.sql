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

-- The queue holds only the ids of calls. What a worker takes from it it marks as taken; it removes nothing.
GRANT USAGE ON SCHEMA wavewright_fleet TO wavewright_worker;
GRANT SELECT, UPDATE (status, heartbeat, updated, queue_manager_id) ON wavewright_fleet.pgqueuer TO wavewright_worker;
GRANT INSERT ON wavewright_fleet.pgqueuer_log TO wavewright_worker;
REVOKE DELETE ON wavewright_fleet.pgqueuer FROM wavewright_worker;

-- All that a worker writes it writes by functions, which hold it to the calls that it has begun itself.
GRANT EXECUTE ON FUNCTION wavewright_fleet.begin_calls, wavewright_fleet.answer_calls, wavewright_fleet.drop_answered,
    wavewright_fleet.emit, wavewright_fleet.beat, wavewright_fleet.leave TO wavewright_worker;
REVOKE ALL ON wavewright_fleet.worker, wavewright_fleet.emission FROM wavewright_worker;

ALTER TABLE wavewright_fleet.call ENABLE ROW LEVEL SECURITY;
REVOKE UPDATE ON wavewright_fleet.call FROM wavewright_worker;
REVOKE UPDATE (begun, worker, db_user, answer) ON wavewright_fleet.call FROM wavewright_worker;
GRANT SELECT ON wavewright_fleet.call TO wavewright_worker;
DROP POLICY IF EXISTS worker_reads ON wavewright_fleet.call;
CREATE POLICY worker_reads ON wavewright_fleet.call FOR SELECT TO wavewright_worker
    USING (begun IS NULL OR db_user = current_user);
DROP POLICY IF EXISTS worker_writes ON wavewright_fleet.call;

ALTER TABLE wavewright_fleet.goal ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON wavewright_fleet.goal TO wavewright_worker;
DROP POLICY IF EXISTS worker_reads ON wavewright_fleet.goal;
CREATE POLICY worker_reads ON wavewright_fleet.goal FOR SELECT TO wavewright_worker
    USING (EXISTS (SELECT FROM wavewright_fleet.call WHERE call.run = goal.run));

-- Budgets of models: what calls cost, with the names of jobs and steps. Needed by workers that ask models. A worker
-- adds to them: it takes back no more than its own reservations that it settles in the same transaction.
GRANT USAGE ON SCHEMA wavewright TO wavewright_worker;
GRANT SELECT ON wavewright.format TO wavewright_worker;
REVOKE UPDATE ON wavewright.model_call, wavewright.budget_total FROM wavewright_worker;
GRANT SELECT, INSERT, UPDATE (settled, calls, tokens, usd, seconds, model, outcome, took)
    ON wavewright.model_call TO wavewright_worker;
GRANT SELECT, INSERT, UPDATE (calls, tokens, usd, seconds) ON wavewright.budget_total TO wavewright_worker;
GRANT SELECT (no, owner) ON wavewright.run TO wavewright_worker;
ALTER TABLE wavewright.model_call ADD COLUMN IF NOT EXISTS db_user name DEFAULT session_user;
CREATE TABLE IF NOT EXISTS wavewright.worker_freed (
    transaction xid8 NOT NULL, counter text NOT NULL, name text NOT NULL, step text NOT NULL,
    calls bigint NOT NULL, tokens bigint NOT NULL, usd bigint NOT NULL, seconds bigint NOT NULL
);

CREATE OR REPLACE FUNCTION wavewright.is_worker() RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT NOT rolsuper AND pg_has_role(session_user, 'wavewright_worker', 'MEMBER')
    FROM pg_roles WHERE rolname = session_user
$$;

CREATE OR REPLACE FUNCTION wavewright.hold_worker_to_its_calls() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$ BEGIN
    IF NOT wavewright.is_worker() THEN
        RETURN NEW;
    END IF;
    IF least(NEW.calls, NEW.tokens, NEW.usd, NEW.seconds) < 0 THEN
        RAISE insufficient_privilege USING MESSAGE = 'a worker reserves and spends nothing below 0';
    END IF;
    IF TG_OP = 'INSERT' THEN
        NEW.db_user := session_user;
        NEW.settled := false;
        RETURN NEW;
    END IF;
    IF OLD.settled OR OLD.db_user IS DISTINCT FROM session_user THEN
        RAISE insufficient_privilege USING MESSAGE = 'a worker settles its own reservations, each once';
    END IF;
    DELETE FROM wavewright.worker_freed WHERE transaction <> pg_current_xact_id();
    INSERT INTO wavewright.worker_freed
    SELECT pg_current_xact_id(), counter, name, step,
        greatest(0, OLD.calls - NEW.calls), greatest(0, OLD.tokens - NEW.tokens),
        greatest(0, OLD.usd - NEW.usd), greatest(0, OLD.seconds - NEW.seconds)
    FROM (VALUES
        ('day', OLD.day, ''), ('job', OLD.job, ''), ('run', OLD.run, ''), ('work', OLD.run, ''),
        ('step', coalesce(OLD.run, ''), OLD.step)
    ) AS counters (counter, name, step) WHERE name IS NOT NULL AND step IS NOT NULL;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS hold_worker ON wavewright.model_call;
CREATE TRIGGER hold_worker BEFORE INSERT OR UPDATE ON wavewright.model_call
    FOR EACH ROW EXECUTE FUNCTION wavewright.hold_worker_to_its_calls();

CREATE OR REPLACE FUNCTION wavewright.hold_worker_to_adding() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$ DECLARE freed record; BEGIN
    IF NOT wavewright.is_worker() THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'INSERT' THEN
        IF least(NEW.calls, NEW.tokens, NEW.usd, NEW.seconds) < 0 THEN
            RAISE insufficient_privilege USING MESSAGE = 'a worker adds to budgets only';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.calls >= OLD.calls AND NEW.tokens >= OLD.tokens AND NEW.usd >= OLD.usd AND NEW.seconds >= OLD.seconds THEN
        RETURN NEW;
    END IF;
    WITH used AS (
        DELETE FROM wavewright.worker_freed AS kept WHERE transaction = pg_current_xact_id()
        AND kept.counter = OLD.counter AND kept.name = OLD.name AND kept.step = OLD.step RETURNING *
    )
    SELECT coalesce(sum(calls), 0) AS calls, coalesce(sum(tokens), 0) AS tokens,
        coalesce(sum(usd), 0) AS usd, coalesce(sum(seconds), 0) AS seconds INTO freed FROM used;
    IF OLD.calls - NEW.calls > freed.calls OR OLD.tokens - NEW.tokens > freed.tokens
        OR OLD.usd - NEW.usd > freed.usd OR OLD.seconds - NEW.seconds > freed.seconds THEN
        RAISE insufficient_privilege USING MESSAGE = 'a worker adds to budgets only';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS hold_worker ON wavewright.budget_total;
CREATE TRIGGER hold_worker BEFORE UPDATE ON wavewright.budget_total
    FOR EACH ROW EXECUTE FUNCTION wavewright.hold_worker_to_adding();
DROP TRIGGER IF EXISTS hold_worker_in_new_rows ON wavewright.budget_total;
-- After: what is an addition to a row that is there is no new one.
CREATE TRIGGER hold_worker_in_new_rows AFTER INSERT ON wavewright.budget_total
    FOR EACH ROW EXECUTE FUNCTION wavewright.hold_worker_to_adding();

-- A session is the connection of one process; a user has those that it opened itself.
ALTER TABLE wavewright.session ADD COLUMN IF NOT EXISTS db_user name DEFAULT current_user;
ALTER TABLE wavewright.session ENABLE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON wavewright.session TO wavewright_worker;
DROP POLICY IF EXISTS worker_has_its_own ON wavewright.session;
CREATE POLICY worker_has_its_own ON wavewright.session TO wavewright_worker USING (db_user = current_user);
