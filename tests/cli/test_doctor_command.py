"""`smrl doctor`: what it shows and what it repairs."""

from pathlib import Path

import pytest

from smrl.cli.main import main

SHORT = (
    *("--steps", "30", "--warmup", "10", "--eval-every", "10", "--eval-episodes", "1", "--reuse", "1"),
    *("--batch-size", "4", "--actor-hidden", "4", "--critic-hidden", "4", "--quiet"),
)


def test_a_damaged_run_is_examined_repaired_and_resumed(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "ddpg", "Pendulum-v1", *SHORT])
    (folder,) = in_tmp_path.glob("runs/*/*/seed0")
    (shard,) = folder.glob("checkpoint/replay/rows-*")
    evaluations = (folder / "evaluations.csv").read_bytes()
    shard.write_bytes(shard.read_bytes()[:-1])
    (folder / "config.json").write_text("")
    (folder / "evaluations.csv").unlink()
    capsys.readouterr()

    main(["doctor", str(folder)])
    messages = capsys.readouterr().out
    assert f"damaged; smrl doctor {folder} --repair" in messages
    assert f"{shard.name} has a wrong checksum" in messages

    main(["doctor", str(folder), "--repair"])
    messages = capsys.readouterr().out
    assert f"{folder / 'config.json'} was damaged; it is rebuilt from the checkpoint." in messages
    assert "its 3 rows are restored" in messages
    assert "29 of the 30 transitions in the replay memory are lost" in messages
    assert (folder / "evaluations.csv").read_bytes() == evaluations

    main(["doctor", str(folder), "--repair"])
    assert "is intact" in capsys.readouterr().out
    main(["train", "ddpg", "Pendulum-v1", *SHORT, "--steps", "40"])
    assert (folder / "evaluations.csv").read_bytes().startswith(evaluations)
    main(["doctor", str(folder)])
    messages = capsys.readouterr().out
    assert "40 of 40" in messages
    assert "state       intact" in messages


@pytest.mark.parametrize("flags", [(), ("--repair",)])
def test_no_run(flags: tuple[str, ...], in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "nowhere", *flags])
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("smrl: nowhere is not a run")
    assert not list(in_tmp_path.iterdir())
