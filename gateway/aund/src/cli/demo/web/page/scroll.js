// The end of the conversation stays in view as it grows, unless the reader has scrolled away from it.

// So close to the end is at the end.
const NEAR = 48;

export class LatestScroll {
    constructor(view, content, button) {
        this.view = view;
        this.content = content;
        this.button = button;
        this.following = true;
        view.addEventListener("scroll", () => this.look(), { passive: true });
        button.addEventListener("click", () => this.toEnd());
        const sizes = new ResizeObserver(() => (this.following ? this.toEnd() : this.look()));
        sizes.observe(content);
        sizes.observe(view);
    }

    look() {
        const { scrollHeight, scrollTop, clientHeight } = this.view;
        this.following = scrollHeight - scrollTop - clientHeight < NEAR;
        this.button.hidden = this.following || !this.content.hasChildNodes();
    }

    toEnd() {
        this.following = true;
        this.button.hidden = true;
        // The first screen begins at its beginning.
        this.view.scrollTop = this.content.hasChildNodes() ? this.view.scrollHeight : 0;
    }

    // What is in view stays there while something is added above it.
    keep(change) {
        const { scrollHeight, scrollTop } = this.view;
        change();
        this.view.scrollTop = scrollTop + this.view.scrollHeight - scrollHeight;
        this.look();
    }
}
