"""The PyBullet tasks of the paper, made anew from a description of pybullet-gym's "-MuJoCoEnv-v0" tasks.

`registration.register` makes the ids known to Gymnasium; PyBullet itself is loaded with the first environment. Where
the original has a quirk that changes the task, the quirk is the default, because published results have it, and a
keyword that begins with ``repair_`` removes it.
"""
