"""Pictures: the curves of a training run, and maps of attention.

They are drawn without a display, by matplotlib's Agg canvas: nothing here touches pyplot, which
would look for a window system and keep every figure in a global list.
"""

from minibert.plots.attention import plot_attention
from minibert.plots.report import plot_report

__all__ = ["plot_attention", "plot_report"]
