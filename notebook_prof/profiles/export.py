"""``p.export``: writes a Profile as a file for other programs."""

from __future__ import annotations

import os
from typing import Any

from .. import writers
from ..trace.redaction import without_source
from .namespace import Namespace, method


class Export(Namespace, path="export"):
    """Write a report, a picture, or a file for another tool. ``p.save`` saves the recording itself.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from notebook_prof import Profile, read_trace
    >>> from notebook_prof.testing import draw
    >>> p, folder = Profile(draw("main: [mm ]")), pathlib.Path(tempfile.mkdtemp())
    >>> p.export.html(folder / "report.html")
    >>> p.export.png(folder / "phases.png", "phases")
    >>> p.export.svg(folder / "phases.svg", "phases", theme="dark")
    >>> p.export.chrome(folder / "run.json.gz")
    >>> len(read_trace(folder / "run.json.gz"))
    1
    """

    def html(self, path: str | os.PathLike[str], *, source: bool = True) -> None:
        """Write one self-contained HTML file with the four linked views.

        It needs no kernel and no network, and contains the current selection.

        Parameters
        ----------
        path : path
            An existing file is replaced.
        source : bool
            False leaves out source, file names, values of strings, and names of variables and annotations.
        """
        from ..views.report.static_html import write_report

        p = self._shared(source)
        write_report(p.trace, p.selection, path, verdict=p.headline, claims=p.verdict.claims)

    def png(
        self,
        path: str | os.PathLike[str],
        view: str = "all",
        *,
        width: int = 1000,
        theme: str = "light",
        source: bool = True,
    ) -> None:
        """Write the views as a picture, without a browser. Everything outside the selection is pale.

        Parameters
        ----------
        path : path
        view : str
            ``timeline``, ``operators``, ``memory``, ``phases``, or ``all`` of them.
        width : int
            Width of the layout in pixels, at least 480. The picture has twice as many.
        theme : str
            ``light`` or ``dark``.
        source : bool
            False leaves out source, file names, values of strings, and names of variables and annotations.

        Raises
        ------
        OptionError
            For an unknown view or theme, or if `width` is too small.
        """
        from ..views.pictures import scene, write_png

        p = self._shared(source)
        write_png(scene(p.trace, p.selection, view, width, theme), path)

    def svg(
        self,
        path: str | os.PathLike[str],
        view: str = "all",
        *,
        width: int = 1000,
        theme: str = "light",
        source: bool = True,
    ) -> None:
        """Write the views as a vector picture, without a browser. Arguments are those of `png`."""
        from ..views.pictures import scene, write_svg

        p = self._shared(source)
        write_svg(scene(p.trace, p.selection, view, width, theme), path)

    def chrome(self, path: str | os.PathLike[str], *, source: bool = True) -> None:
        """Write Chrome trace JSON, which Perfetto, TensorBoard and `open_profile` open.

        Parameters
        ----------
        path : path
            Compressed with gzip if it ends in ``.gz``; an existing file is replaced.
        source : bool
            False leaves out source, file names, values of strings, and names of variables and annotations.
        """
        self._shared(source).trace.to_chrome(path)

    def _shared(self, source: bool) -> Any:
        """Return the Profile, or one of the recording without source."""
        p = self._profile
        return p if source else type(p)(without_source(p.trace))

    stacks = method(lambda: writers.export_stacks)
