# Started several times by mpirun, mpiexec, srun: see launchers.py.
exec python3 -B "$SW_SOURCE/tests/run/launchers.py"
