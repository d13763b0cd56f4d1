// What all pages share: complaints, requests, forms.
const token = document.querySelector('meta[name="form-token"]').content;

export const find = (id) => document.getElementById(id);
export const path = (name) => name.split("/").map(encodeURIComponent).join("/");

export function complain(sentence) {
  find("error").textContent = sentence;
  if (sentence) find("error").scrollIntoView({ block: "center" });
}

// Answers {ok, ...} with what the server says; `signal` takes a question back.
export async function ask(address, content, signal) {
  const answer = await fetch(address, {
    method: "POST",
    headers: { "content-type": "application/json", "x-gradveil-form": token },
    body: JSON.stringify(content),
    signal,
  });
  return { ok: answer.ok, ...(await answer.json()) };
}

export async function send(address, content) {
  complain("");
  const answer = await ask(address, content);
  if (!answer.ok) { complain(answer.error); return null; }
  return answer;
}

export function onForm(id, act) {
  const form = find(id);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button[type=submit]");
    button.disabled = true;
    try { await act(form); }
    catch (error) { complain("the server does not answer"); }
    finally { button.disabled = false; }
  });
}
