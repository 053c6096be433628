// Tabs, as the ARIA pattern has them: one of them is in the order of the Tab key, arrows go to the others.

export class Tabs {
  #tabs;

  constructor(list) {
    this.#tabs = [...list.querySelectorAll('[role=tab]')];
    list.addEventListener('click', (event) => {
      const tab = event.target.closest('[role=tab]');
      if (tab) this.#select(tab);
    });
    list.addEventListener('keydown', (event) => {
      const at = this.#tabs.indexOf(document.activeElement);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      const tab = this.#tabs.at(to % this.#tabs.length);
      this.#select(tab);
      tab.focus();
    });
  }

  #select(chosen) {
    for (const tab of this.#tabs) {
      tab.setAttribute('aria-selected', String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      document.getElementById(tab.getAttribute('aria-controls')).hidden = tab !== chosen;
    }
  }
}
