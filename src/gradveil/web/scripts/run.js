// One run as it happens: three curves by round, and the whole report when it is over.
import { complain, find, path, send } from "./page.js";

const live = find("live");
const name = path(live.dataset.name);
const LEFT = 48, RIGHT = 392, TOP = 10, BOTTOM = 190;

const number = (value) => Number(value.toPrecision(2)).toString();

// The smallest of 1, 2, 4, 6, 10, 20, ... that leaves room above the values, so that half of it is a plain number too.
function ceiling(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 10, 20].map((n) => n * unit).find((top) => top >= 1.05 * value);
}

// A chart of points [round, value] between 0 and its highest, with a dashed level if there is one.
function draw(id, curve, rounds, level, named, top) {
  find(`${id}-figure`).hidden = curve.length === 0;
  if (curve.length === 0) return;
  const highest = top ?? ceiling(Math.max(...curve.map(([, value]) => value), level ?? 0, 1e-9));
  const x = (round) => LEFT + (RIGHT - LEFT) * round / rounds;
  const y = (value) => BOTTOM - (BOTTOM - TOP) * value / highest;
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    const at = BOTTOM - (BOTTOM - TOP) * share;
    parts.push(`<path d="M${LEFT} ${at}H${RIGHT}" stroke="currentColor" opacity=".25"/>`);
    parts.push(`<text x="${LEFT - 6}" y="${at + 5}" text-anchor="end" font-size="14" fill="currentColor">${number(share * highest)}</text>`);
  }
  parts.push(`<text x="${RIGHT}" y="${BOTTOM + 20}" text-anchor="end" font-size="14" fill="currentColor">round ${rounds}</text>`);
  if (level !== null) {
    parts.push(`<path class="level" d="M${LEFT} ${y(level)}H${RIGHT}" stroke="currentColor" stroke-dasharray="8 4"/>`);
    parts.push(`<text x="${RIGHT}" y="${y(level) - 5}" text-anchor="end" font-size="13" fill="currentColor">${named} ${number(level)}</text>`);
  }
  const points = curve.map(([round, value]) => `${x(round).toFixed(1)},${y(value).toFixed(1)}`);
  parts.push(`<polyline points="${points.join(" ")}" fill="none" stroke="var(--link)" stroke-width="2.5"/>`);
  const [cx, cy] = points.at(-1).split(",");
  parts.push(`<circle cx="${cx}" cy="${cy}" r="4" fill="var(--link)"/>`);
  find(id).innerHTML = parts.join("");
  const last = curve.at(-1);
  find(id).setAttribute("aria-label", `${find(`${id}-figure`).querySelector("h2").textContent}: ${number(last[1])} after round ${last[0]}`);
}

function duration(seconds) {
  if (seconds === null) return "";
  return seconds < 90 ? `; about ${Math.ceil(seconds)} s left` : `; about ${Math.ceil(seconds / 60)} min left`;
}

function show(status) {
  live.dataset.state = status.state;
  find("state").textContent = status.state;
  find("doing").textContent = status.doing ? ` (${status.doing})` : "";
  find("done").textContent = status.done;
  find("bar").value = status.done;
  find("accuracy").textContent = status.accuracy === null ? "none yet" : status.accuracy.toFixed(3);
  find("epsilon").textContent = status.epsilon;
  find("left").textContent = duration(status.seconds_left);
  find("stop").hidden = status.state !== "running";
  find("resume").hidden = status.state !== "stopped";
  find("charts").hidden = status.state !== "running"; // the report below has them
  draw("curve", status.curve, status.rounds, status.baseline, "majority", 1);
  draw("spending", status.spending, status.rounds, status.budget, "budget");
  draw("noise", status.noise, status.rounds, null);
}

// The report is a page of its own; here its body stands in this page, without its title.
async function report() {
  find("report").textContent = "Making the report …";
  const answer = await fetch("/report/" + name);
  const text = await answer.text();
  if (!answer.ok) { find("report").replaceChildren(); complain(text); return; }
  const main = new DOMParser().parseFromString(text, "text/html").getElementById("report");
  main.querySelector("h1").remove();
  find("report").replaceChildren(...main.childNodes);
}

function follow() {
  const source = new EventSource("/events/" + name);
  source.onmessage = (event) => {
    const status = JSON.parse(event.data);
    show(status);
    if (status.state === "running") return;
    source.close();
    report();
  };
}

follow();
for (const verb of ["stop", "resume"]) find(verb).addEventListener("click", async () => {
  find("report").replaceChildren();
  if (await send(`/api/runs/${name}/${verb}`, {})) setTimeout(follow, 1000);
});
