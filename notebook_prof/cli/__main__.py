"""``python -m notebook_prof.cli``."""

from .main import main

raise SystemExit(main())
