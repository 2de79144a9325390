"""What every test begins with."""

from __future__ import annotations

import os

# Networks here are so small that threads within one step only wait for each other. Set before
# torch is imported, and inherited by every process that a test starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")
