// The form of a new run: fields show the preset until they are changed, and a line says what the plan costs.
import { ask, find, onForm, path, send } from "./page.js";

const form = find("new-run");
const fields = [...form.querySelectorAll("[data-preset]")];
const changed = new Set();
let pending = null, timer = null;

function content() {
  const given = Object.fromEntries([...new FormData(form)].filter(([key, value]) => value && (changed.has(key) || !find(key).matches("[data-preset]"))));
  return given;
}

function mark(field) {
  if (field.value) changed.add(field.id); else changed.delete(field.id);
  field.classList.toggle("changed", changed.has(field.id));
}

function show(settings) {
  for (const field of fields) {
    if (changed.has(field.id) || field === document.activeElement || !(field.id in settings)) continue;
    const value = settings[field.id];
    if (field.tagName === "SELECT" && ![...field.options].some((option) => option.value === value)) continue;
    field.value = value;
  }
}

function cost(sentence, wrong) {
  find("cost").textContent = sentence;
  find("cost").classList.toggle("wrong", wrong);
}

async function forecast() {
  pending?.abort();
  const question = pending = new AbortController();
  const plan = content();
  delete plan.name;
  delete plan.attack;
  form.setAttribute("aria-busy", "true");
  find("duration").textContent = "";
  try {
    const told = await ask("/api/epsilon", plan, question.signal);
    cost(told.ok ? told.says : told.error, !told.ok);
    if (!told.ok) return;
    show(told.settings);
    find("duration").textContent = "Timing a few steps …";
    const time = await ask("/api/duration", plan, question.signal);
    find("duration").textContent = time.ok ? time.says : time.error;
  } catch (error) {
    if (error.name !== "AbortError") cost("The server does not answer.", true);
  } finally {
    if (pending === question) form.removeAttribute("aria-busy");
  }
}

function edited(event) {
  if (event.target.matches("[data-preset]")) mark(event.target);
  if (event.target.id === "name" || event.target.id === "attack") return;
  clearTimeout(timer);
  timer = setTimeout(forecast, 400);
}

for (const event of ["input", "change"]) form.addEventListener(event, edited);
form.addEventListener("focusout", (event) => {  // an emptied field gets its preset back
  if (event.target.matches("[data-preset]") && !event.target.value) { clearTimeout(timer); timer = setTimeout(forecast, 50); }
});
onForm("new-run", async () => {
  clearTimeout(timer);
  pending?.abort();
  find("duration").textContent = "Starting …";
  const status = await send("/api/runs", content());
  find("duration").textContent = "";
  if (status) location.href = "/run/" + path(status.name);
});
forecast();
