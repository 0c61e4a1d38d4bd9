import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Distributions for a paper")


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # Distributions for a paper

    Figures that can be printed, the numbers behind them with intervals, and the sentence for the methods section.

        marimo edit analysis/notebooks/distributions_for_a_paper.py -- --log /var/log/nginx/sojourn.jsonl --out figures

    With `--out` the figures are written as PDF, one file each; lines and letters stay what they are at any size.
    """)
    return


@app.cell
def _():
    from html import escape
    from pathlib import Path

    import marimo as mo
    import numpy as np
    import polars as pl
    import sojourn
    from sojourn import plots

    return Path, escape, mo, np, pl, plots, sojourn


@app.cell
def _(Path, mo, sojourn):
    examples = Path(mo.notebook_dir() or ".").parents[1] / "docs" / "examples"
    arguments = mo.cli_args()
    log = arguments.get("log") or examples / "shop.jsonl.gz"
    spans = arguments.get("spans") or ([] if arguments.get("log") else examples / "shop-spans.jsonl.gz")
    out = arguments.get("out")
    result = sojourn.split(log, spans=spans)
    return out, result


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## Quantiles, with what is known of them

    Requests that arrive together are slow together, so a resampling of single requests would give intervals that are
    far too narrow. Here whole windows are drawn, 60 of them with replacement (a block bootstrap; Künsch 1989), and the
    interval holds the middle 95 % of 500 draws.
    """)
    return


@app.cell
def _(np, pl, result):
    windows, draws = 60, 500
    start = pl.col("start").dt.epoch("us")
    window = ((start - start.min()) * windows // (start.max() - start.min() + 1)).alias("window")
    parts = {"response time": "request_time", "queueing delay": "queueing_delay", "service time": "service_time"}
    rows = result.served.select(window, *parts.values()).collect()
    chance = np.random.default_rng(1)
    counts = np.array([np.bincount(chance.integers(0, windows, windows), minlength=windows) for _ in range(draws)])

    def quantile(part, share):
        """Return the quantile of a column (s) and its 95 % interval in the draws, without unknown values."""
        known = rows.select("window", part).drop_nulls().sort(part)
        values = known[part].to_numpy()
        cumulated = np.cumsum(counts[:, known["window"].to_numpy()], axis=1)
        at = [values[np.searchsorted(each, share * each[-1])] for each in cumulated if each[-1]]
        low, high = np.quantile(at, [0.025, 0.975])
        return {"requests": len(values), "seconds": np.quantile(values, share), "from": low, "to": high}

    table = pl.DataFrame(
        [
            {"": name, "quantile": f"p{share * 100:g}", **quantile(part, share)}
            for name, part in parts.items()
            for share in (0.5, 0.9, 0.99)
        ]
    ).with_columns(pl.col("seconds", "from", "to").round(3))
    table
    return (table,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## The figures

    The share of requests that took longer than a time, both axes logarithmic; time by percentile; service time against
    queueing delay; and the distribution by the number of requests ahead on arrival.
    """)
    return


@app.cell
def _(plots, result):
    kinds = ("ccdf", "percentiles", "hexbin", "heatmap")
    pictures = {kind: plots.picture(result, kind) for kind in kinds}
    pictures["ridgeline"] = plots.picture(result, "ridgeline", by="concurrency")
    figures = {kind: picture.chart().configure_legend(orient="top") for kind, picture in pictures.items()}
    return figures, pictures


@app.cell
def _(escape, figures, mo, pictures):
    # A reading may quote the log: it is text, whatever it looks like.
    mo.vstack(
        [
            mo.vstack([chart, mo.Html(f"<p><em>{kind}</em>: {escape(pictures[kind].reading)}</p>")])
            for kind, chart in figures.items()
        ],
        gap=2,
    )
    return


@app.cell
def _(Path, figures, mo, out, plots):
    written = []
    if out:
        Path(out).mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            plots.save(figure, Path(out) / f"{name}.pdf")
            written.append(f"{name}.pdf")
    mo.md(f"Written to `{out}`: {', '.join(written)}." if written else "Nothing is written without `--out`.")
    return (written,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## For the methods section
    """)
    return


@app.cell
def _(mo, result, sojourn):
    audit = result.audit
    begin, end = result.window
    methods = (
        f"{result.requests:,} requests over {(end - begin).total_seconds():,.0f} s were logged by nginx and divided "
        f"with Sojourn {sojourn.__version__} into the time before the app's own start (queueing delay) and after it "
        "(service time); the parts of every request sum to its response time within "
        f"{audit.identity_max_error:.0e} s. {result.records.rejected:,} of {result.records.read:,} log lines were "
        f"refused. The window {'passed' if audit.stationary else 'did not pass'} a test of stationarity."
    )
    mo.md(f"> {methods}")
    return (methods,)


if __name__ == "__main__":
    app.run()
