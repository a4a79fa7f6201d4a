// A click on a column's heading sorts its table by that column; a second click turns the order.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  table.querySelectorAll("th button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const head = button.parentElement;
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
      const number = (text) => (text.trim() === "" ? NaN : Number(text));
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const [p, q] = [number(x), number(y)];
        if (Number.isNaN(p) !== Number.isNaN(q)) return Number.isNaN(p) ? 1 : -1;  // words after numbers
        const order = Number.isNaN(p) ? x.localeCompare(y, "en", { numeric: true }) : p - q;
        return down ? -order : order;
      });
      body.append(...rows);
    });
  });
}
