// The list of runs: sorted by its headings, filtered by words, state and method, and some of them compared.
import { complain, find } from "./page.js";

const NUMBERS = ["time", "accuracy", "epsilon"];
const LARGEST_FIRST = ["time", "accuracy"];
const body = document.querySelector("#runs tbody");
const heads = [...document.querySelectorAll("#runs th[data-key]")];

function compared(key, one, other) {
  if (!NUMBERS.includes(key)) return one.localeCompare(other, undefined, { numeric: true });
  return Number(one) - Number(other);
}

function sort(key, descending) {
  const rows = [...body.rows];
  const sign = descending ? -1 : 1;
  rows.sort((a, b) => {
    const [one, other] = [a.dataset[key], b.dataset[key]];
    if (one === "" || other === "") return (one === "") - (other === "");  // what is not known comes last
    return sign * compared(key, one, other);
  });
  body.append(...rows);
  for (const head of heads) {
    if (head.dataset.key === key) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

function filter() {
  const words = find("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of body.rows) {
    const { name, dataset, method, state } = row.dataset;
    const text = `${name} ${dataset} ${method}`.toLowerCase();
    const fits = words.every((word) => text.includes(word))
      && (!find("state").value || state === find("state").value)
      && (!find("method").value || method === find("method").value);
    row.hidden = !fits;
    shown += fits;
  }
  find("count").textContent = shown === body.rows.length ? `${shown} runs` : `${shown} of ${body.rows.length} runs`;
}

function compare() {
  const boxes = [...document.querySelectorAll("input[name=run]:checked")];
  const most = Number(find("compare").dataset.most);
  if (boxes.length < 2) complain("choose at least two runs to compare");
  else if (boxes.length > most) complain(`at most ${most} runs can be compared on one page`);
  else location.href = "/compare?" + boxes.map((box) => "run=" + encodeURIComponent(box.value)).join("&");
}

if (body) {
  for (const head of heads) head.querySelector("button").addEventListener("click", () => {
    const key = head.dataset.key;
    const before = head.getAttribute("aria-sort");
    sort(key, before ? before === "ascending" : LARGEST_FIRST.includes(key));
  });
  find("order").addEventListener("change", () => sort(find("order").value, LARGEST_FIRST.includes(find("order").value)));
  for (const event of ["input", "change"]) find("filter").addEventListener(event, filter);
  find("filter").addEventListener("submit", (event) => event.preventDefault());
  find("compare").addEventListener("click", compare);
}
