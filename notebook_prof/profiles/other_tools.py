"""``p.compat``: the output of other profilers for any recording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pandas as pd

from .. import analysis, compat
from .namespace import Namespace
from .text import Text


class Compat(Namespace):
    """The texts and tables of other profilers, for recordings of every format."""

    path: ClassVar[str] = "compat"

    def torch_table(
        self, sort_by: str | None = None, row_limit: int = 100, *, time_unit: str | None = None
    ) -> Text:
        """Write operators as PyTorch's ``prof.key_averages().table()`` does.

        Parameters
        ----------
        sort_by : str, optional
            ``self_cpu_time_total cpu_time_total cpu_time count self_device_time_total device_time_total
            device_time`` (or ``cuda`` for ``device``), largest first; by default in order of appearance.
        row_limit : int
            Number of rows; -1 for all.
        time_unit : str, optional
            ``s ms us``; by default each time in the unit that fits.

        Returns
        -------
        Text

        Raises
        ------
        OptionError
            For an unknown key or unit.

        Examples
        --------
        >>> from notebook_prof import Profile
        >>> from notebook_prof.testing import draw
        >>> "Self CPU time total" in Profile(draw("main: [aten::mm ]")).compat.torch_table()
        True
        """
        trace = self._profile.trace
        return Text(compat.torch_text(trace, sort_by=sort_by, row_limit=row_limit, time_unit=time_unit))

    def paddle_summary(
        self,
        *,
        sorted_by: str = "CPUTotal",
        views: str | Iterable[str] | None = None,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
    ) -> Text:
        """Write the tables that ``paddle.profiler.Profiler.summary`` prints.

        Parameters
        ----------
        sorted_by : str
            ``CPUTotal CPUAvg CPUMax CPUMin GPUTotal GPUAvg GPUMax GPUMin``, or Paddle's ``SortedKeys``; from
            largest to smallest, minima from smallest to largest.
        views : str or iterable of str, optional
            ``DeviceView OverView ModelView DistributedView KernelView OperatorView MemoryView
            MemoryManipulationView UDFView``, or Paddle's ``SummaryView``; all by default. Views without rows
            are left out.
        op_detail, thread_sep : bool
            Whether to list the parts of operators, and operators by thread.
        time_unit : str
            ``s ms us ns``.

        Returns
        -------
        Text
            For Paddle's recordings the same text, to the character.

        Raises
        ------
        OptionError
            For an unknown sort key, view or unit.

        Examples
        --------
        >>> from notebook_prof import Profile
        >>> from notebook_prof.testing import draw
        >>> text = Profile(draw("main: [mm ]")).compat.paddle_summary(views="OperatorView")
        >>> "Operator Summary" in text
        True
        """
        return Text(
            compat.event_text(
                compat.Events(self._profile.trace),
                sorted_by=sorted_by,
                views=views,
                op_detail=op_detail,
                thread_sep=thread_sep,
                time_unit=time_unit,
            )
        )

    def paddle_timer(self, *, samples: float | Sequence[float] | None = None, unit: str = "samples") -> Text:
        """Write reader cost, batch cost and ips as Paddle's profiler with ``timer_only=True`` does.

        Parameters
        ----------
        samples : number or sequence of them, optional
            Number of samples of each step; by default the argument of ``nbp.step(samples=…)``, or read from
            the shapes of the first operator. Without any, ips are steps a second.
        unit : str
            Name of a sample, such as ``images``.

        Returns
        -------
        Text
            A line for all steps and, with more than ten steps, Paddle's summary. Empty without steps.

        Raises
        ------
        OptionError
            If `samples` are not positive numbers, or their number is not that of the steps.

        Examples
        --------
        >>> from notebook_prof import Profile, TraceBuilder
        >>> b = TraceBuilder()
        >>> b.steps(range(2), [0, 500_000_000], [500_000_000] * 2, "mark")
        >>> _ = b.slices(ts=0, dur=1_000_000_000, name="train", track=b.track("main"))
        >>> Profile(b.seal()).compat.paddle_timer()
         batch_cost: 0.50000 s ips: 2.000 steps/s
        """
        return Text(compat.timer_text(self._profile.trace, samples=samples, unit=unit))

    def megengine(self, *, on: str | None = None, **options: Any) -> pd.DataFrame:
        """Rank calls of operators, as MegEngine's ``profile_analyze`` does.

        Parameters
        ----------
        on : str, optional
            ``device`` or ``host``; by default ``device``, or ``host`` if no call ran on a device.
        **options
            ``end_key top types name input_dtype aggregate aggregate_by order_by min_time_s max_time_s``, the
            options of `notebook_prof.compat.megengine.top_calls`.

        Returns
        -------
        DataFrame
            That of `top_calls`.

        Raises
        ------
        OptionError
            For an unknown order or aggregate, or an invalid regular expression.

        Examples
        --------
        >>> from notebook_prof import Profile
        >>> from notebook_prof.testing import draw
        >>> p = Profile(draw("main: [mm     ][add]"))
        >>> p.compat.megengine(top=1)[["name", "count"]].values.tolist()
        [['mm', 1]]
        """
        table = analysis.calls(self._profile.trace)
        side = on if on is not None else "device" if table["device_ns"].notna().any() else "host"
        return compat.top_calls(table, on=side, **options)
