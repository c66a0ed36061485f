BEGIN TRANSACTION;
CREATE TABLE episode (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    turns INTEGER,              -- how many, NULL until it is finished
    head TEXT NOT NULL,
    prompt_ids BLOB NOT NULL
);
INSERT INTO "episode" VALUES(1,'rollout/train/0066#0',3,'{"id":"rollout/train/0066#0","sample":0,"seed":5127237233806622750,"task":{"id":"train/0066","environment":"agentgym/text-number-guess-v1","prompt":"Find my number from 26 to 32 in 3 guesses.","messages":[],"parameters":{"low":26,"high":32,"secret":30,"guesses":3},"truth":{"secret":30},"split":"train","tags":["level_0"],"difficulty":0.0},"opening":[["user","Find my number from 26 to 32 in 3 guesses.",[],null,null]],"outcome":{"success":1.0,"progress":1.0},"stop_reason":"environment","error":null,"weights":{"progress":0.0,"return":0.0},"provenance":{"agentgym":"0.1.0","seed":0,"temperature":1.0,"top_p":1.0,"max_tokens":512,"policy":"oracle","environment":"agentgym.sandboxes.text.number_guess.NumberGuess"},"duration_s":0.06333186299889348}',X'');
INSERT INTO "episode" VALUES(2,'rollout/train/0066#1',3,'{"id":"rollout/train/0066#1","sample":1,"seed":5127237233806622750,"task":{"id":"train/0066","environment":"agentgym/text-number-guess-v1","prompt":"Find my number from 26 to 32 in 3 guesses.","messages":[],"parameters":{"low":26,"high":32,"secret":30,"guesses":3},"truth":{"secret":30},"split":"train","tags":["level_0"],"difficulty":0.0},"opening":[["user","Find my number from 26 to 32 in 3 guesses.",[],null,null]],"outcome":{"success":1.0,"progress":1.0},"stop_reason":"environment","error":null,"weights":{"progress":0.0,"return":0.0},"provenance":{"agentgym":"0.1.0","seed":0,"temperature":1.0,"top_p":1.0,"max_tokens":512,"policy":"oracle","environment":"agentgym.sandboxes.text.number_guess.NumberGuess"},"duration_s":0.006917137001437368}',X'');
INSERT INTO "episode" VALUES(3,'rollout/train/1172#0',2,'{"id":"rollout/train/1172#0","sample":0,"seed":4810516430902952616,"task":{"id":"train/1172","environment":"agentgym/text-number-guess-v1","prompt":"Find my number from 16 to 46 in 5 guesses.","messages":[],"parameters":{"low":16,"high":46,"secret":23,"guesses":5},"truth":{"secret":23},"split":"train","tags":["level_4"],"difficulty":4.0},"opening":[["user","Find my number from 16 to 46 in 5 guesses.",[],null,null]],"outcome":{"success":1.0,"progress":1.0},"stop_reason":"environment","error":null,"weights":{"progress":0.0,"return":0.0},"provenance":{"agentgym":"0.1.0","seed":0,"temperature":1.0,"top_p":1.0,"max_tokens":512,"policy":"oracle","environment":"agentgym.sandboxes.text.number_guess.NumberGuess"},"duration_s":0.0013516300023184158}',X'');
INSERT INTO "episode" VALUES(4,'rollout/train/1172#1',2,'{"id":"rollout/train/1172#1","sample":1,"seed":4810516430902952616,"task":{"id":"train/1172","environment":"agentgym/text-number-guess-v1","prompt":"Find my number from 16 to 46 in 5 guesses.","messages":[],"parameters":{"low":16,"high":46,"secret":23,"guesses":5},"truth":{"secret":23},"split":"train","tags":["level_4"],"difficulty":4.0},"opening":[["user","Find my number from 16 to 46 in 5 guesses.",[],null,null]],"outcome":{"success":1.0,"progress":1.0},"stop_reason":"environment","error":null,"weights":{"progress":0.0,"return":0.0},"provenance":{"agentgym":"0.1.0","seed":0,"temperature":1.0,"top_p":1.0,"max_tokens":512,"policy":"oracle","environment":"agentgym.sandboxes.text.number_guess.NumberGuess"},"duration_s":0.010266220997436903}',X'');
INSERT INTO "episode" VALUES(5,'rollout/train/1097#0',NULL,'{"id":"rollout/train/1097#0","sample":0,"seed":875157362964895385,"task":{"id":"train/1097","environment":"agentgym/text-number-guess-v1","prompt":"Find my number from 20 to 31 in 4 guesses.","messages":[],"parameters":{"low":20,"high":31,"secret":23,"guesses":4},"truth":{"secret":23},"split":"train","tags":["level_1"],"difficulty":1.0},"opening":[["user","Find my number from 20 to 31 in 4 guesses.",[],null,null]],"outcome":{},"stop_reason":null,"error":null,"weights":{"progress":0.0,"return":0.0},"provenance":{"agentgym":"0.1.0","seed":0,"temperature":1.0,"top_p":1.0,"max_tokens":512,"policy":"oracle","environment":"agentgym.sandboxes.text.number_guess.NumberGuess"},"duration_s":0.0}',X'');
INSERT INTO "episode" VALUES(6,'rollout/train/1097#1',NULL,'{"id":"rollout/train/1097#1","sample":1,"seed":875157362964895385,"task":{"id":"train/1097","environment":"agentgym/text-number-guess-v1","prompt":"Find my number from 20 to 31 in 4 guesses.","messages":[],"parameters":{"low":20,"high":31,"secret":23,"guesses":4},"truth":{"secret":23},"split":"train","tags":["level_1"],"difficulty":1.0},"opening":[["user","Find my number from 20 to 31 in 4 guesses.",[],null,null]],"outcome":{},"stop_reason":null,"error":null,"weights":{"progress":0.0,"return":0.0},"provenance":{"agentgym":"0.1.0","seed":0,"temperature":1.0,"top_p":1.0,"max_tokens":512,"policy":"oracle","environment":"agentgym.sandboxes.text.number_guess.NumberGuess"},"duration_s":0.0}',X'');
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('schema_version','1');
CREATE TABLE summary_2 (
    episode INTEGER PRIMARY KEY,  -- its key
    id TEXT NOT NULL,
    run TEXT NOT NULL,            -- what stands before the task in the id, as `train-000012`
    task TEXT NOT NULL,
    tags TEXT,                    -- JSON: of the task, in order of the alphabet; NULL for none
    sample INTEGER NOT NULL,
    environment TEXT NOT NULL,
    split TEXT NOT NULL,
    stop TEXT,                    -- stop reason, NULL until it is finished
    success REAL,                 -- NULL where it was not judged
    reward REAL NOT NULL,         -- outcome and turn rewards together
    turns INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    calls_ok INTEGER NOT NULL,
    tokens INTEGER NOT NULL,      -- written by the agent
    duration_s REAL NOT NULL,
    failures TEXT                 -- JSON: how often each kind of failure occurred (agentgym.episode.failures), or NULL
);
INSERT INTO "summary_2" VALUES(1,'rollout/train/0066#0','rollout','train/0066','["level_0"]',0,'agentgym/text-number-guess-v1','train','environment',1.0,1.0,3,3,3,0,6.33318629988934844732e-02,NULL);
INSERT INTO "summary_2" VALUES(2,'rollout/train/0066#1','rollout','train/0066','["level_0"]',1,'agentgym/text-number-guess-v1','train','environment',1.0,1.0,3,3,3,0,6.9171370014373678714e-03,NULL);
INSERT INTO "summary_2" VALUES(3,'rollout/train/1172#0','rollout','train/1172','["level_4"]',0,'agentgym/text-number-guess-v1','train','environment',1.0,1.0,2,2,2,0,1.35163000231841579079e-03,NULL);
INSERT INTO "summary_2" VALUES(4,'rollout/train/1172#1','rollout','train/1172','["level_4"]',1,'agentgym/text-number-guess-v1','train','environment',1.0,1.0,2,2,2,0,1.02662209974369034171e-02,NULL);
INSERT INTO "summary_2" VALUES(5,'rollout/train/1097#0','rollout','train/1097','["level_1"]',0,'agentgym/text-number-guess-v1','train',NULL,NULL,0.0,0,0,0,0,0.0,NULL);
INSERT INTO "summary_2" VALUES(6,'rollout/train/1097#1','rollout','train/1097','["level_1"]',1,'agentgym/text-number-guess-v1','train',NULL,NULL,0.0,0,0,0,0,0.0,NULL);
CREATE TABLE turn (
    episode INTEGER NOT NULL,
    number INTEGER NOT NULL,
    head TEXT NOT NULL,
    token_ids BLOB NOT NULL,
    logprobs BLOB NOT NULL,
    observation_ids BLOB NOT NULL,
    PRIMARY KEY (episode, number)
) WITHOUT ROWID;
INSERT INTO "turn" VALUES(1,0,'{"index":0,"content":"","calls":[["guess",{"number":29},"call_0",null]],"results":[["higher, 2 left","ok","guess","call_0",false,false,6.410900095943362e-05]],"generate_s":8.721199992578477e-05,"tools_s":0.00010378399747423828,"state_key":"1816939c60dda8314b072e66","potential":0.0}',X'',X'',X'');
INSERT INTO "turn" VALUES(1,1,'{"index":1,"content":"","calls":[["guess",{"number":31},"call_0",null]],"results":[["lower, 1 left","ok","guess","call_0",false,false,4.6958000893937424e-05]],"generate_s":0.0001537669995741453,"tools_s":7.464900045306422e-05,"state_key":"6ec6a4539e0c1090921d0696","potential":0.3918824693517783}',X'',X'',X'');
INSERT INTO "turn" VALUES(1,2,'{"index":2,"content":"","calls":[["guess",{"number":30},"call_0",null]],"results":[["correct","ok","guess","call_0",false,false,1.6379999578930438e-05]],"generate_s":3.3972999517573044e-05,"tools_s":2.7622001653071493e-05,"state_key":"93d804ebebb5235cb5388f25","potential":0.9}',X'',X'',X'');
INSERT INTO "turn" VALUES(2,0,'{"index":0,"content":"","calls":[["guess",{"number":29},"call_0",null]],"results":[["higher, 2 left","ok","guess","call_0",false,false,3.1047002266859636e-05]],"generate_s":4.744800025946461e-05,"tools_s":5.048499951954e-05,"state_key":"1816939c60dda8314b072e66","potential":0.0}',X'',X'',X'');
INSERT INTO "turn" VALUES(2,1,'{"index":1,"content":"","calls":[["guess",{"number":31},"call_0",null]],"results":[["lower, 1 left","ok","guess","call_0",false,false,1.4487002772511914e-05]],"generate_s":3.255000046920031e-05,"tools_s":2.5247001758543774e-05,"state_key":"6ec6a4539e0c1090921d0696","potential":0.3918824693517783}',X'',X'',X'');
INSERT INTO "turn" VALUES(2,2,'{"index":2,"content":"","calls":[["guess",{"number":30},"call_0",null]],"results":[["correct","ok","guess","call_0",false,false,1.324500044574961e-05]],"generate_s":3.459500294411555e-05,"tools_s":2.4103999749058858e-05,"state_key":"93d804ebebb5235cb5388f25","potential":0.9}',X'',X'',X'');
INSERT INTO "turn" VALUES(3,0,'{"index":0,"content":"","calls":[["guess",{"number":31},"call_0",null]],"results":[["lower, 4 left","ok","guess","call_0",false,false,1.4687000657431781e-05]],"generate_s":2.530699930503033e-05,"tools_s":2.4877001123968512e-05,"state_key":"ce5282c3023380402f2c2bd5","potential":0.0}',X'',X'',X'');
INSERT INTO "turn" VALUES(3,1,'{"index":1,"content":"","calls":[["guess",{"number":23},"call_0",null]],"results":[["correct","ok","guess","call_0",false,false,1.747199712553993e-05]],"generate_s":3.679899964481592e-05,"tools_s":2.742099968600087e-05,"state_key":"ba33cd24dc204cf207d150df","potential":0.190257931710202}',X'',X'',X'');
INSERT INTO "turn" VALUES(4,0,'{"index":0,"content":"","calls":[["guess",{"number":31},"call_0",null]],"results":[["lower, 4 left","ok","guess","call_0",false,false,1.1652002285700291e-05]],"generate_s":2.7020003471989185e-05,"tools_s":2.268199750687927e-05,"state_key":"ce5282c3023380402f2c2bd5","potential":0.0}',X'',X'',X'');
INSERT INTO "turn" VALUES(4,1,'{"index":1,"content":"","calls":[["guess",{"number":23},"call_0",null]],"results":[["correct","ok","guess","call_0",false,false,4.623600034392439e-05]],"generate_s":8.852500104694627e-05,"tools_s":6.702500104438514e-05,"state_key":"ba33cd24dc204cf207d150df","potential":0.190257931710202}',X'',X'',X'');
INSERT INTO "turn" VALUES(5,0,'{"index":0,"content":"","calls":[["guess",{"number":25},"call_0",null]],"results":[["lower, 3 left","ok","guess","call_0",false,false,2.8001999453408644e-05]],"generate_s":4.998299846192822e-05,"tools_s":4.2970001231878996e-05,"state_key":"6ac8bc885511033042b0ee02","potential":0.0}',X'',X'',X'');
INSERT INTO "turn" VALUES(6,0,'{"index":0,"content":"","calls":[["guess",{"number":25},"call_0",null]],"results":[["lower, 3 left","ok","guess","call_0",false,false,1.961599991773255e-05]],"generate_s":3.5255998227512464e-05,"tools_s":3.0416998924920335e-05,"state_key":"6ac8bc885511033042b0ee02","potential":0.0}',X'',X'',X'');
COMMIT;
