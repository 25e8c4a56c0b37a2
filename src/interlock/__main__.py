"""`python -m interlock` is the command `interlock`."""

from __future__ import annotations

import sys

from interlock.cli.main import main

sys.exit(main())
