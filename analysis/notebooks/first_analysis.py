import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="First analysis")


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # Slow code, or a queue?

    The first look at a log, from the verdict to a change worth making. It opens on an example: 3,087 requests to a shop
    with two backends of two workers each. For your own:

        marimo edit analysis/notebooks/first_analysis.py -- --log /var/log/nginx/sojourn.jsonl --spans spans.jsonl

    `--spans` may be left out; without the app's spans nothing is known of requests that nginx gave up on.
    """)
    return


@app.cell
def _():
    from html import escape
    from pathlib import Path

    import marimo as mo
    import sojourn
    from sojourn import plots

    return Path, escape, mo, plots, sojourn


@app.cell
def _(Path, mo):
    examples = Path(mo.notebook_dir() or ".").parents[1] / "docs" / "examples"
    arguments = mo.cli_args()
    log = arguments.get("log") or examples / "shop.jsonl.gz"
    spans = arguments.get("spans") or ([] if arguments.get("log") else examples / "shop-spans.jsonl.gz")
    return log, spans


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## The verdict

    Every request's response time is divided at the app's own start: before it the request waited (queueing delay),
    after it the app worked (service time). What failed in the audit stands first: then the rest is doubtful.
    """)
    return


@app.cell
def _(log, sojourn, spans):
    columns = ("request_id", "uri", "remote_addr", "method", "connection")
    result = sojourn.split(log, spans=spans, columns=columns)
    result
    return (result,)


@app.cell
def _(escape, mo, plots, result):
    def shown(kind, **options):
        """Return a chart with its finding, escaped because it may quote the log."""
        picture = plots.picture(result, kind, **options)
        return mo.vstack([picture.chart().configure_legend(orient="top"), mo.Html(f"<p>{escape(picture.reading)}</p>")])

    return (shown,)


@app.cell
def _(shown):
    shown("distribution")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## The slowest requests

    Quantiles of parts do not add up to the quantile of the whole, so the slow end is shown by what the slowest requests
    consist of.
    """)
    return


@app.cell
def _(shown):
    shown("tail")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## Victims and culprits

    Every instant of every wait is charged to those who held the workers then, to the balancer where another backend had
    a free worker, or to the way there.
    """)
    return


@app.cell
def _(result, sojourn):
    blame = sojourn.blame(result)
    blame
    return (blame,)


@app.cell
def _(shown):
    shown("flow")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## Queue depth and worker utilisation
    """)
    return


@app.cell
def _(shown):
    shown("depth")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## What would have helped

    The same requests, replayed under other set-ups; first as things are, which must fit what was measured.
    """)
    return


@app.cell
def _(result, sojourn):
    whatif = sojourn.whatif(result)
    whatif
    return (whatif,)


@app.cell(hide_code=True)
def _(blame, escape, mo, result, whatif):
    sentences = "".join(f"<li>{escape(str(each))}</li>" for each in (result, blame, whatif))
    mo.vstack([mo.md("## In three sentences"), mo.Html(f"<ol>{sentences}</ol>")])
    return


if __name__ == "__main__":
    app.run()
