"""One run of many, in a process of its own: `python -m smrl.experiments.worker TASK`, a task being JSON."""

import json
import sys
from pathlib import Path

from smrl.errors import SmrlError
from smrl.experiment import from_json
from smrl.interruption import Interrupted
from smrl.progress import SentMeter
from smrl.session import Session
from smrl.train import carry_out

if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    experiment = from_json(task["experiment"])
    session = Session(**task["session"] | {"runs": Path(task["session"]["runs"])})
    try:
        carry_out(experiment, session, experiment.make_env, SentMeter())
    except SmrlError as error:
        sys.exit(str(error))
    except Interrupted as stop:
        sys.exit(stop.exit_code)
