"""Try a wheel as a user would: in a fresh environment, outside the tree, without the developers' tools.

Run by `make dist` as ``python tests/try_wheel.py dist/smrl-*.whl``.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KERNELS = "from smrl.kernels import library; print('kernels:', library.is_available())"
COMMANDS = (
    "python -m pip check",
    "smrl list",
    "smrl train sac Pendulum-v1 --steps 200 --warmup 100 --eval-every 100 --eval-episodes 1 --quiet",
    "smrl report runs -o report.html",
    "smrl report runs --published",
    "smrl reproduce --list",
)


def main(wheel: Path) -> None:
    """Install the wheel and run each command; stop with the output of the first that fails."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/env"], check=True)
        bin = Path(folder, "env", "bin")
        variables = {"PATH": f"{bin}:{os.environ['PATH']}", "HOME": folder, "COLUMNS": "120"}

        def run(*command: str) -> str:
            print(" ".join(command)[:110], flush=True)
            done = subprocess.run(command, cwd=folder, env=variables, text=True, capture_output=True)
            if done.returncode:
                sys.exit(f"{done.stdout}{done.stderr}{command[0]} ended with exit code {done.returncode}")
            return done.stdout

        # pip keeps its own settings and downloads
        subprocess.run([bin / "pip", "install", "--quiet", "--disable-pip-version-check", wheel.resolve()], check=True)
        has_compiler = bool(shutil.which("c++") or shutil.which("g++"))
        assert run(str(bin / "python"), "-c", KERNELS) == f"kernels: {has_compiler}\n"
        for command in COMMANDS:
            name, *words = command.split()
            run(str(bin / name), *words)
        (trained,) = Path(folder, "runs").glob("*/*/seed0")
        run(str(bin / "smrl"), "export", str(trained), "--to", "numpy", "-o", "policy")
        page = Path(folder, "report.html").read_text()
        assert "Pendulum-v1" in page
        assert "<script>" in page, "the report's page is in the package"
        packages = subprocess.run([bin / "pip", "list"], text=True, capture_output=True, check=True).stdout.lower()
        assert not [name for name in ("mujoco", "imageio", "torch", "pytest") if f"\n{name} " in packages]
        size = sum(path.stat().st_size for path in bin.parent.rglob("*") if path.is_file() and not path.is_symlink())
        print(f"{wheel.name} works in an environment of {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
