-- A journal of format 1, as it was written before there was a purse in it; the PRAGMA lines are its header.
PRAGMA application_id = 1466005093;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE event (
        id INTEGER PRIMARY KEY,
        run INTEGER NOT NULL REFERENCES run (no),
        seq INTEGER NOT NULL,
        at REAL NOT NULL,
        kind TEXT NOT NULL,
        step TEXT,
        status TEXT,
        key TEXT,
        crc INTEGER NOT NULL,
        body TEXT NOT NULL
    );
INSERT INTO "event" VALUES(1,1,0,1795312800.0,'run_started',NULL,NULL,NULL,1301732653,'{"run":"20261122-020000-c0ffee","at":1795312800.0,"job":"equities","goal":{"name":"outlook"},"now":1795312800.0}');
INSERT INTO "event" VALUES(2,1,1,1795312800.5,'plan_accepted',NULL,NULL,NULL,1932675486,'{"at":1795312800.5,"plan":{"steps":[{"id":"prices","tool":"fetch_prices"}]},"plan_hash":"sha256:0","rung":"template"}');
INSERT INTO "event" VALUES(3,1,2,1795312800.6,'wave_started',NULL,NULL,NULL,2328252302,'{"at":1795312800.6,"wave":0,"steps":["prices"]}');
INSERT INTO "event" VALUES(4,1,3,1795312801.0,'step_finished','prices','ok','k1',3626768182,'{"at":1795312801.0,"step":"prices","status":"ok","key":"k1","output":{"close":1.5},"started":1795312800.6,"seconds":0.4,"attempts":1}');
INSERT INTO "event" VALUES(5,1,4,1795312802.0,'run_finished',NULL,NULL,NULL,524835117,'{"at":1795312802.0,"status":"achieved"}');
CREATE TABLE indexed (upto INTEGER NOT NULL);
INSERT INTO "indexed" VALUES(0);
CREATE TABLE result (key TEXT NOT NULL, event INTEGER NOT NULL, PRIMARY KEY (key, event)) WITHOUT ROWID;
CREATE TABLE run (
        no INTEGER PRIMARY KEY,
        run TEXT NOT NULL UNIQUE,
        job TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL,
        finished REAL,
        status TEXT,
        steps INTEGER, ok INTEGER, failed INTEGER,
        fence INTEGER NOT NULL DEFAULT 0,
        owner TEXT, host TEXT, pid INTEGER, born TEXT, realm TEXT,
        since REAL, beat INTEGER NOT NULL DEFAULT 0, beat_at REAL, lease REAL
    );
INSERT INTO "run" VALUES(1,'20261122-020000-c0ffee','equities',1795312800.0,1795312802.0,'achieved',1,1,0,1,NULL,'host',1,'1','realm',1795312800.0,1,1795312800.0,10.0);
CREATE UNIQUE INDEX event_order ON event (run, seq);
CREATE TRIGGER event_unchanged BEFORE UPDATE ON event
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an event is never changed'); END;
CREATE TRIGGER event_kept BEFORE DELETE ON event
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an event is never deleted'); END;
COMMIT;
