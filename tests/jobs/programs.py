"""Runs programs one after the other in one process: a short one spends most of its time starting its JVM.

``python programs.py '[["one.py", "--rows=3"], ["other.py"]]'`` prints a line ``=== <path>`` before the output of each.
A program that fails ends the run.
"""

import json
import runpy
import sys
from pathlib import Path

for path, *arguments in json.loads(sys.argv[1]):
    print(f"=== {path}", flush=True)
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).parent))
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.path.pop(0)
    sys.stdout.flush()
