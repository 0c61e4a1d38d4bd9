import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="A what-if study")


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # What would have helped?

    A study of one change: does the model fit, what would the change have brought, how far would it carry, and what does
    theory say of it. It opens on an example, a shop in which exports hold the workers.

        marimo edit analysis/notebooks/what_if_study.py -- --log /var/log/nginx/sojourn.jsonl --spans spans.jsonl
    """)
    return


@app.cell
def _():
    from html import escape
    from pathlib import Path

    import marimo as mo
    import polars as pl
    import sojourn

    return Path, escape, mo, pl, sojourn


@app.cell
def _(Path, mo, sojourn):
    examples = Path(mo.notebook_dir() or ".").parents[1] / "docs" / "examples"
    arguments = mo.cli_args()
    log = arguments.get("log") or examples / "shop.jsonl.gz"
    spans = arguments.get("spans") or ([] if arguments.get("log") else examples / "shop-spans.jsonl.gz")
    result = sojourn.split(log, spans=spans, columns=("request_id", "remote_addr", "connection"))
    return examples, result


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## Does the replay fit?

    The arrivals and service times that were measured go through a queue as yours is. Where that is off by more than
    15 % from what was measured, nothing below would be worth reading, and nothing is predicted.
    """)
    return


@app.cell
def _(mo):
    more_workers = mo.ui.slider(1, 4, value=1, label="more workers per backend", show_value=True)
    discipline = mo.ui.dropdown(["fifo", "lifo", "adaptive_lifo", "codel", "sjf"], value="sjf", label="discipline")
    mo.hstack([more_workers, discipline], justify="start", gap=2)
    return discipline, more_workers


@app.cell
def _(discipline, more_workers, result, sojourn):
    variants = [
        {"workers": f"+{more_workers.value}"},
        {"discipline": discipline.value},
        {"balancer": "least_conn"},
        {"balancer": "shared_queue"},
        {"load": "x0.9"},
    ]
    replayed = sojourn.whatif(result, variants)
    replayed
    return (replayed,)


@app.cell
def _(escape, replayed, mo):
    fit = ", ".join(f"{figure} {error:+.1%}" for figure, error in replayed.error.items())
    mo.Html(
        f"<p>{escape(f'Nothing is predicted: {replayed.refused}.' if replayed.refused else f'Replayed: {fit}.')}</p>"
    )
    return


@app.cell
def _(escape, replayed, mo):
    # The pictures that the report would have of it.
    mo.vstack(
        [
            mo.vstack([each.chart().configure_legend(orient="top"), mo.Html(f"<p>{escape(each.reading)}</p>")])
            for each in replayed.section.pictures
        ]
    )
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## How far would it carry?

    The same change under more load: what is gained today may be used up by next month's traffic.
    """)
    return


@app.cell
def _(more_workers, pl, result, sojourn):
    loads = (1.0, 1.1, 1.25, 1.5)
    workers = {"workers": f"+{more_workers.value}"}
    grown = sojourn.whatif(result, [{**workers, "load": f"x{load:g}"} for load in loads], force=True)
    carried = pl.DataFrame(
        [
            {
                "load": float(variant.settings["load"].lstrip("x")),
                "p99 (s)": round(variant.response_time["p99"], 2),
                "utilisation": round(variant.utilisation, 2),
                "given up on": variant.timeouts,
            }
            for variant in grown.variants
        ]
    ).sort("load")
    carried
    return (carried,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## And in theory?

    One queue with exponential services, as load grows: the wait in the simulation beside Erlang C. The curve is the
    reason why the last tenth of a machine is the dearest.
    """)
    return


@app.cell
def _(pl, sojourn):
    curve = pl.DataFrame(
        [
            {
                "utilisation": utilisation,
                "simulated wait (s)": round(simulated.wait["mean"], 4),
                "± 95 %": round(simulated.mean_wait.half, 4),
                "Erlang C (s)": round(simulated.theory.mean_wait, 4),
            }
            for utilisation in (0.5, 0.7, 0.8, 0.9)
            for simulated in [
                sojourn.simulate(f"poisson:{utilisation * 4 / 0.1:g}", "exponential:0.1", workers=4, requests=2_000_000)
            ]
        ]
    )
    curve
    return (curve,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## How far is the cliff?

    From a ramp of load, another example: the rate at which a p99 of 0.5 s breaks.
    """)
    return


@app.cell
def _(examples, sojourn):
    capacity = sojourn.capacity(examples / "ramp.jsonl.gz", slo="p99=0.5", target_rate=150, headroom=0.3)
    capacity
    return (capacity,)


if __name__ == "__main__":
    app.run()
