"""Commands of Slurm that run jobs on this machine, for tests: sbatch, srun, squeue, sacct, scontrol."""

import os
import stat
from pathlib import Path

COMMANDS = {
    "sbatch": """
number=$((1000 + $(ls "$HERE" | grep -c '^job-')))
touch "$HERE/job-$number"
cp "$1" "$HERE/script-$number"
"$HERE/begin" "$number"
echo "Submitted batch job $number"
""",
    "begin": """
( export SLURM_JOB_ID=$1 SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
  echo RUNNING > "$HERE/job-$1"
  bash "$HERE/script-$1"
  [ -e "$HERE/requeued-$1" ] || echo COMPLETED > "$HERE/job-$1"
  [ -e "$HERE/requeued-$1" ] && rm "$HERE/requeued-$1" && "$HERE/begin" "$1" ) < /dev/null > /dev/null 2>&1 &
""",
    "srun": """
while [[ $1 == -* ]]; do
  [[ $1 == --output ]] && output=${2//%j/$SLURM_JOB_ID} && output=${output//%t/0} && shift
  [[ $1 == --error ]] && error=${2//%j/$SLURM_JOB_ID} && error=${error//%t/0} && shift
  shift
done
mkdir -p "$(dirname "$output")"
"$@" > "$output" 2> "${error:-$output}" &
echo $! > "$HERE/pid-$SLURM_JOB_ID"
wait $!
""",
    "squeue": 'grep -qs RUNNING "$HERE/job-$3" && echo "$3 RUNNING" || exit 1',
    "sacct": """
echo "JobID|State|NodeList"
for file in "$HERE"/job-*; do echo "${file##*-}|$(cat "$file")|here"; done
""",
    "scontrol": 'touch "$HERE/requeued-$2"',
}


def install(folder: Path) -> dict[str, str]:
    """Write the commands to a folder; the environment in which they are found."""
    folder.mkdir()
    for name, script in COMMANDS.items():
        file = folder / name
        file.write_text(f"#!/bin/bash\nHERE={folder}\n{script.lstrip()}")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
