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
CREATE OR REPLACE FUNCTION wavewright_fleet.hold_worker_to_taking() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$ BEGIN
    IF wavewright.is_worker() THEN
        RAISE insufficient_privilege USING MESSAGE = 'a worker takes calls from the queue, and hides none';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS hold_worker ON wavewright_fleet.pgqueuer;
-- One that is marked as ended, or as alive in time to come, would be taken by nobody.
CREATE TRIGGER hold_worker BEFORE UPDATE ON wavewright_fleet.pgqueuer FOR EACH ROW
    WHEN (NEW.heartbeat > now() OR (NEW.status <> 'picked' AND NEW.status <> OLD.status))
    EXECUTE FUNCTION wavewright_fleet.hold_worker_to_taking();

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
-- adds to them: it takes back no more than what it has added for its own reservations and settles for less.
GRANT USAGE ON SCHEMA wavewright TO wavewright_worker;
GRANT SELECT ON wavewright.format TO wavewright_worker;
REVOKE UPDATE ON wavewright.model_call, wavewright.budget_total FROM wavewright_worker;
GRANT SELECT, INSERT, UPDATE (settled, calls, tokens, usd, seconds, model, outcome, took)
    ON wavewright.model_call TO wavewright_worker;
GRANT SELECT, INSERT, UPDATE (calls, tokens, usd, seconds) ON wavewright.budget_total TO wavewright_worker;
GRANT SELECT (no, owner) ON wavewright.run TO wavewright_worker;
ALTER TABLE wavewright.model_call ADD COLUMN IF NOT EXISTS db_user name DEFAULT session_user;
-- What a user may take back of each total: of its own reservations, what it had added there and settles for less. Below
-- 0, what it has reserved and not added yet.
CREATE TABLE IF NOT EXISTS wavewright.worker_balance (
    db_user name NOT NULL, counter text NOT NULL, name text NOT NULL, step text NOT NULL,
    calls bigint NOT NULL, tokens bigint NOT NULL, usd bigint NOT NULL, seconds bigint NOT NULL,
    PRIMARY KEY (db_user, counter, name, step)
);
DROP TABLE IF EXISTS wavewright.worker_freed;

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
        -- The largest id is followed by the next reservation of any process.
        IF NEW.id > (SELECT coalesce(max(id), 0) + 1 FROM wavewright.model_call) THEN
            RAISE insufficient_privilege USING MESSAGE = 'a worker numbers its reservations in order';
        END IF;
        NEW.db_user := session_user;
        NEW.settled := false;
    ELSIF OLD.settled OR OLD.db_user IS DISTINCT FROM session_user THEN
        RAISE insufficient_privilege USING MESSAGE = 'a worker settles its own reservations, each once';
    END IF;
    INSERT INTO wavewright.worker_balance AS kept
    SELECT session_user, counter, total.name, total.step, coalesce(OLD.calls, 0) - NEW.calls,
        coalesce(OLD.tokens, 0) - NEW.tokens, coalesce(OLD.usd, 0) - NEW.usd, coalesce(OLD.seconds, 0) - NEW.seconds
    FROM (VALUES
        ('day', NEW.day, ''), ('job', NEW.job, ''), ('run', NEW.run, ''),
        ('work', CASE WHEN NEW.role NOT IN ('recovery', 'reviewer', 'judge') THEN NEW.run END, ''),
        ('step', coalesce(NEW.run, ''), NEW.step)
    ) AS total (counter, name, step) WHERE total.name IS NOT NULL AND total.step IS NOT NULL
    ON CONFLICT (db_user, counter, name, step) DO UPDATE SET
        calls = kept.calls + excluded.calls, tokens = kept.tokens + excluded.tokens,
        usd = kept.usd + excluded.usd, seconds = kept.seconds + excluded.seconds;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS hold_worker ON wavewright.model_call;
CREATE TRIGGER hold_worker BEFORE INSERT OR UPDATE ON wavewright.model_call
    FOR EACH ROW EXECUTE FUNCTION wavewright.hold_worker_to_its_calls();

-- What is left of a balance after a change of its total: what is taken back needs as much, and what is added pays debts.
CREATE OR REPLACE FUNCTION wavewright.balance_after(balance bigint, change bigint) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$ BEGIN
    IF change < 0 AND balance + change < 0 THEN
        RAISE insufficient_privilege USING MESSAGE = 'a worker adds to budgets only';
    END IF;
    RETURN CASE WHEN change < 0 THEN balance + change WHEN balance < 0 THEN least(0, balance + change) ELSE balance END;
END $$;

CREATE OR REPLACE FUNCTION wavewright.hold_worker_to_adding() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$ DECLARE kept wavewright.worker_balance; BEGIN
    IF NOT wavewright.is_worker() THEN
        RETURN NEW;
    END IF;
    -- The latest day on record is the one that counts.
    IF NEW.counter = 'day' AND NEW.name COLLATE "C" > to_char((now() + interval '1 hour') AT TIME ZONE 'UTC', 'YYYY-MM-DD')
    THEN
        RAISE insufficient_privilege USING MESSAGE = 'a worker begins no day before it comes';
    END IF;
    DELETE FROM wavewright.worker_balance AS own WHERE db_user = session_user
        AND own.counter = NEW.counter AND own.name = NEW.name AND own.step = NEW.step RETURNING * INTO kept;
    kept := (
        session_user, NEW.counter, NEW.name, NEW.step,
        wavewright.balance_after(coalesce(kept.calls, 0), NEW.calls - coalesce(OLD.calls, 0)),
        wavewright.balance_after(coalesce(kept.tokens, 0), NEW.tokens - coalesce(OLD.tokens, 0)),
        wavewright.balance_after(coalesce(kept.usd, 0), NEW.usd - coalesce(OLD.usd, 0)),
        wavewright.balance_after(coalesce(kept.seconds, 0), NEW.seconds - coalesce(OLD.seconds, 0))
    );
    IF (kept.calls, kept.tokens, kept.usd, kept.seconds) <> (0, 0, 0, 0) THEN
        INSERT INTO wavewright.worker_balance VALUES (kept.*);
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
