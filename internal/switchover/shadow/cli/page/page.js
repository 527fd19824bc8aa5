"use strict";

const show = (id, text) => { document.getElementById(id).textContent = text; };

async function refresh() {
  try {
    const report = await (await fetch("api/report")).json();
    show("report", await (await fetch("api/report.txt")).text());
    show("state", report.ended ? "the mirror is off: " + report.ended : report.phase ? "mirroring, " + report.phase : "the run has not begun");
    document.getElementById("state").className = report.ended ? "state bad" : "state ok";
    document.getElementById("off").disabled = Boolean(report.ended);
  } catch (err) {
    show("state", "not reached");
    document.getElementById("state").className = "state bad";
  }
}

document.getElementById("off").addEventListener("click", async () => {
  if (!confirm("Turn the mirror off? Clients stay connected to production.")) return;
  const answer = await fetch("api/actions/off", { method: "POST" });
  show("said", answer.ok ? "" : await answer.text());
  refresh();
});

refresh();
setInterval(refresh, 2000);
