// What the pages do in the browser: send forms, follow a run, play the steps of an attack.
"use strict";

const find = (id) => document.getElementById(id);
const token = document.querySelector('meta[name="form-token"]').content;

function complain(sentence) {
  find("error").textContent = sentence;
  if (sentence) find("error").scrollIntoView({ block: "center" });
}

async function send(address, content) {
  complain("");
  const answer = await fetch(address, {
    method: "POST",
    headers: { "content-type": "application/json", "x-gradveil-form": token },
    body: JSON.stringify(content),
  });
  const status = await answer.json();
  if (!answer.ok) { complain(status.error); return null; }
  return status;
}

function path(name) { return name.split("/").map(encodeURIComponent).join("/"); }

function onForm(id, act) {
  const form = find(id);
  if (!form) return;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button[type=submit]");
    button.disabled = true;
    try { await act(Object.fromEntries(new FormData(form))); }
    catch (error) { complain("the server does not answer"); }
    finally { button.disabled = false; }
  });
}

onForm("new-run", async (content) => {
  const status = await send("/api/runs", content);
  if (status) location.href = "/run/" + path(status.name);
});

const compare = find("compare");
if (compare) compare.addEventListener("click", () => {
  const chosen = [...document.querySelectorAll("input[name=run]:checked")].map((box) => "run=" + encodeURIComponent(box.value));
  if (chosen.length < 2) complain("choose at least two runs to compare");
  else if (chosen.length > Number(compare.dataset.most)) complain(`at most ${compare.dataset.most} runs can be compared on one page`);
  else location.href = "/compare?" + chosen.join("&");
});

function draw(curve, rounds) {
  const at = (round, value) => `${40 + 550 * round / rounds},${180 - 170 * value}`;
  const parts = [];
  for (const value of [0, 0.5, 1]) {
    parts.push(`<line x1="40" x2="590" y1="${180 - 170 * value}" y2="${180 - 170 * value}" stroke="currentColor" opacity=".2"/>`);
    parts.push(`<text x="34" y="${184 - 170 * value}" text-anchor="end" font-size="12" fill="currentColor">${value}</text>`);
  }
  parts.push(`<text x="590" y="197" text-anchor="end" font-size="12" fill="currentColor">round ${rounds}</text>`);
  const points = curve.map(([round, value]) => at(round, value)).join(" ");
  parts.push(`<polyline points="${points}" fill="none" stroke="#0072B2" stroke-width="2.5"/>`);
  if (curve.length === 1) {
    const [x, y] = at(...curve[0]).split(",");
    parts.push(`<circle cx="${x}" cy="${y}" r="4" fill="#0072B2"/>`);
  }
  find("curve").innerHTML = parts.join("");
}

function duration(seconds) {
  if (seconds === null) return "";
  return seconds < 90 ? `; about ${Math.ceil(seconds)} s left` : `; about ${Math.ceil(seconds / 60)} min left`;
}

function show(status) {
  find("state").textContent = status.state;
  find("doing").textContent = status.doing ? `(${status.doing})` : "";
  find("done").textContent = status.done;
  find("bar").value = status.done;
  find("accuracy").textContent = status.accuracy === null ? "none yet" : status.accuracy.toFixed(3);
  find("epsilon").textContent = status.epsilon;
  find("left").textContent = duration(status.seconds_left);
  find("stop").hidden = status.state !== "running";
  find("resume").hidden = status.state !== "stopped";
  draw(status.curve, status.rounds);
}

const live = find("live");
let shown = "";
function follow() {
  const source = new EventSource("/events/" + path(live.dataset.name));
  source.onmessage = (event) => {
    const status = JSON.parse(event.data);
    show(status);
    // The report is made again about ten times on the way, with every attack, and at the end.
    const now = status.state + status.attacks + "." + Math.floor(10 * status.done / status.rounds);
    if (shown && shown !== now) find("report").src = find("report").src;
    shown = now;
    if (status.state !== "running") source.close();
  };
}
if (live) {
  follow();
  for (const verb of ["stop", "resume"]) find(verb).addEventListener("click", async () => {
    if (await send(`/api/runs/${path(live.dataset.name)}/${verb}`, {})) setTimeout(follow, 1000);
  });
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
onForm("lab", async (content) => {
  find("lab-says").textContent = "The attack is running; the first of its kind takes up to a minute.";
  find("lab-shows").hidden = true;
  const status = await send("/api/lab", content);
  find("lab-says").textContent = "";
  if (!status) return;
  find("lab-truth").src = status.truth;
  find("lab-prior").src = status.prior;
  find("lab-shows").hidden = false;
  for (const frame of status.frames) {
    find("lab-frame").src = frame.image;
    find("lab-step").textContent = `iteration ${frame.iteration}`;
    await pause(150);
  }
  const better = status.error < status.prior_error ? "nearer than" : "no nearer than";
  find("lab-says").textContent = `Reconstructed with an error of ${status.error.toFixed(3)} in ${status.seconds.toFixed(1)} s: ` +
    `${better} a guess without the gradient, whose error is ${status.prior_error.toFixed(3)}.`;
});
