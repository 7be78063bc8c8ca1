"""axe-core (Deque, MPL-2.0) on a page: what a program can find of what shuts people out."""

from pathlib import Path

import axe_playwright_python

SCRIPT = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()

# A picture is one image with a name and its numbers in words; what plotly draws inside it is hidden from screen
# readers, and `tests/pages/test_charts.py` computes the contrast of its text and marks.
INSIDE_A_PICTURE = ".lab-chart-plot .svg-container"

RUN = """async ([exclude, rules]) => {
    const run = rules.length ? { runOnly: { type: "rule", values: rules } }
      : { rules: { "target-size": { enabled: true } } };
    const found = await axe.run({ exclude: [exclude] }, { ...run, resultTypes: ["violations"] });
    const grave = found.violations.filter((v) => ["serious", "critical"].includes(v.impact));
    const said = (v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")}: ${n.html.slice(0, 160)}`);
    globalThis.grave = grave.flatMap(said);
    return grave.length === 0;
}"""


def check(page, *rules):
    """Fail unless the page, once it has settled, has no serious or critical violation.

    Args:
        rules: names of the only rules to run; all of them, and the size of targets, if none is given.
    """
    if not page.evaluate("'axe' in globalThis"):
        page.evaluate(SCRIPT)
    for _ in range(
        4
    ):  # Streamlit mounts the list of pages of a narrow screen a moment after the resize
        if page.evaluate(RUN, [[INSIDE_A_PICTURE], list(rules)]):
            return
    assert not page.evaluate("globalThis.grave")
