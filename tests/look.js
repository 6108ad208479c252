// What is drawn, by its rectangles on the screen: what is wrong with it goes into the element `found`.
const found = [];
const fail = (where, what, words) => found.push(`${where.dataset.of} ${where.dataset.look}: ${what}: ${words}`);
const meet = (one, other) => one.left < other.right - 1 && other.left < one.right - 1 &&
  one.top < other.bottom - 2 && other.top < one.bottom - 2;
const inside = (box, frame) => box.left >= frame.left - 1 && box.right <= frame.right + 1 &&
  box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
const MARKS = ".sj-waits, .sj-watermark, .sj-bound, .sj-limit, .sj-newest, .sj-state";

const lookAtTexts = (where, picture, frame) => {
  const marks = [...picture.querySelectorAll(MARKS)].map((one) => one.getBoundingClientRect());
  const texts = [...picture.querySelectorAll("text")].map((one) => [one.textContent, one.getBoundingClientRect()]);
  texts.forEach(([words, box], at) => {
    if (!inside(box, frame)) fail(where, "out of the picture", words);
    for (const [others, other] of texts.slice(at + 1))
      if (meet(box, other)) fail(where, "on one another", `${words} | ${others}`);
    if (marks.some((mark) => meet(box, mark))) fail(where, "a text on a mark", words);
  });
};

const lookAt = (where, picture) => {
  const frame = picture.getBoundingClientRect();
  const room = picture.parentElement.getBoundingClientRect().width;
  if (Math.abs(frame.width - room) > 2) fail(where, "not as wide as its place", `${frame.width} of ${room}`);
  lookAtTexts(where, picture, frame);
  for (const one of picture.querySelectorAll(".sj-column, .sj-state, .sj-limit, .sj-newest")) {
    const box = one.getBoundingClientRect();
    if (box.width < (one.dataset.count ? 1.9 : 0.9)) fail(where, "a hairline", one.outerHTML);
    if (box.right > frame.right + 1 || box.left < frame.left - 1) fail(where, "out of the picture", one.outerHTML);
  }
};

for (const where of document.querySelectorAll(".sj")) {
  if (where.dataset.theme !== where.dataset.look.split(" ")[1]) fail(where, "theme", where.dataset.theme);
  for (const one of where.querySelectorAll("div, p, ul, li, table"))
    if (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflow === "visible" && one.clientWidth > 0)
      fail(where, "wider than its place", one.textContent.slice(0, 60));
  for (const part of where.querySelectorAll(".sj-part")) {
    const box = part.getBoundingClientRect();
    if (box.width < 4 || box.height < 10) fail(where, "a hairline", part.title);
  }
  for (const picture of where.querySelectorAll("svg")) lookAt(where, picture);
  if (!where.querySelector(".sj-holds")) fail(where, "no picture", "holds");
}
const looked = document.querySelectorAll(".sj text").length;
document.getElementById("found").textContent = JSON.stringify({ found, looked });
