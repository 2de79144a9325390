"""`python -m pam`."""

from pam.cli import main

raise SystemExit(main())
