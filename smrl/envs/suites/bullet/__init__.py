"""The PyBullet tasks of the paper, reimplemented from a description of pybullet-gym's "-MuJoCoEnv-v0" tasks.

`registration.register` registers the ids with Gymnasium; PyBullet is imported with the first environment. Quirks of the
original that change a task are kept by default, because published results include them; keywords that begin with
``repair_`` remove them.
"""
