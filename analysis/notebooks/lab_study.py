import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="A lab study")


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # A lab study

    A run of the lab, read again: the question, the validity of the run, the measurements, the prediction of the law,
    and what the article had said. It opens on a recorded run of the scenario `benchmark`. For one of your own:

        sojourn lab run benchmark --out runs/mine
        marimo edit analysis/notebooks/lab_study.py -- --run runs/mine

    Any scenario's run will do whose cases are HTTP requests.
    """)
    return


@app.cell
def _():
    import gzip
    import json
    from html import escape
    from pathlib import Path

    import altair as alt
    import marimo as mo
    import polars as pl
    import sojourn
    from sojourn import plots
    from sojourn.present import palette

    return Path, alt, escape, gzip, json, mo, palette, pl, plots, sojourn


@app.cell
def _(Path, gzip, json, mo):
    recorded = Path(mo.notebook_dir() or ".").parents[1] / "docs" / "examples" / "benchmark-run"
    folder = Path(mo.cli_args().get("run") or recorded)
    document = folder / "run.json"
    if not document.exists():
        document = folder / "run.json.gz"
    read = gzip.open if document.suffix == ".gz" else open
    with read(document, "rt", encoding="utf-8") as file:
        run = json.load(file)
    return folder, run


@app.cell(hide_code=True)
def _(mo, run):
    scenario, versions = run["scenario"], run["versions"]
    state = "; ".join(run["void_reasons"]) if run["void"] else "the generator kept its schedule, and no part failed"
    mo.md(f"""
    ## {scenario["title"]}

    {scenario["question"]}

    - Ran {run["started"][:19]} UTC with nginx {versions["nginx"]} and Python {versions["python"]} on
      {versions["processors"]} processors.
    - {"**Void**" if run["void"] else "Valid"}: {state}.
    - {sum(each["passed"] for each in run["criteria"])} of {len(run["criteria"])} criteria passed.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## Measured beside the law and the article

    Each case from its own window, without the warm-up. The law is `R = max(N·S/c, S)` for N users without think time,
    a service time S and c workers (Denning & Buzen 1978); all times in ms.
    """)
    return


@app.cell
def _(pl, run):
    def ms(seconds):
        """Whole milliseconds; nothing of nothing."""
        return None if seconds is None else round(seconds * 1000, 1)

    table = pl.DataFrame(
        [
            {
                "case": case["name"],
                "users": case["load"].get("concurrency"),
                "service": ms(case["split"]["components"]["service_time"]["mean"]),
                "queueing": ms(case["split"]["components"]["queueing_delay"]["mean"]),
                "queueing by the law": ms((case.get("law") or {}).get("queueing_delay")),
                "response": ms(case["split"]["response_time"]["mean"]),
                "response in the article": ms((case.get("reference") or {}).get("response_time")),
                "share of queueing": round(case["split"]["queueing_share"] or 0.0, 3),
            }
            for case in run["cases"]
            if case.get("split")
        ],
        infer_schema_length=None,
    )
    table
    return (table,)


@app.cell
def _(alt, palette, table):
    long = table.unpivot(["service", "queueing"], index=["case"], variable_name="part", value_name="ms")
    bars = (
        alt.Chart(long)
        .mark_bar()
        .encode(
            x=alt.X("ms:Q", title="mean (ms)"),
            y=alt.Y("case:N", sort=None, title=None),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(domain=["service", "queueing"], range=[palette.SERVICE, palette.QUEUEING]),
            ),
            order=alt.Order("part:N", sort="descending"),
        )
        .properties(height=28 * len(table), width=520)
    )
    bars
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## The same, from the raw log

    The run's folder is a source like any other. The log holds the warm-ups too, and cases of different load one after
    the other, so its audit says that it is not stationary; grouped by service (a case) it can be read all the same.
    """)
    return


@app.cell
def _(folder, sojourn):
    result = sojourn.split(folder, by=["service"])
    result
    return (result,)


@app.cell
def _(escape, mo, plots, result):
    picture = plots.picture(result, "over_time")
    mo.vstack([picture.chart().configure_legend(orient="top"), mo.Html(f"<p>{escape(picture.reading)}</p>")])
    return


@app.cell(hide_code=True)
def _(mo, run):
    mo.md("## What was learned\n\n" + "\n".join(f"- {each}" for each in run["learned"]))
    return


if __name__ == "__main__":
    app.run()
