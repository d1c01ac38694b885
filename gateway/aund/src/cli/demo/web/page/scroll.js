// The end of the conversation stays in view as it grows, unless the reader has scrolled away from it.

// So close to the end is at the end.
const NEAR = 48;

export class LatestScroll {
    constructor(view, content, button) {
        this.view = view;
        this.content = content;
        this.button = button;
        this.following = true;
        this.remember();
        view.addEventListener("scroll", () => this.look(), { passive: true });
        button.addEventListener("click", () => this.toEnd());
        const sizes = new ResizeObserver(() => (this.following ? this.toEnd() : this.look()));
        sizes.observe(content);
        sizes.observe(view);
    }

    // Up is where only the reader goes: the content grows at its end, and what a window of another size moves does not count.
    look() {
        const { scrollHeight, scrollTop, clientHeight, clientWidth } = this.view;
        const isSameSize = clientHeight === this.height && clientWidth === this.width;
        if (scrollHeight - scrollTop - clientHeight < NEAR) this.following = true;
        else if (scrollTop < this.top && isSameSize) this.following = false;
        this.button.hidden = this.following || !this.content.hasChildNodes();
        this.remember();
    }

    remember() {
        this.top = this.view.scrollTop;
        this.height = this.view.clientHeight;
        this.width = this.view.clientWidth;
    }

    toEnd() {
        this.following = true;
        this.button.hidden = true;
        // The first screen begins at its beginning.
        this.view.scrollTop = this.content.hasChildNodes() ? this.view.scrollHeight : 0;
        this.remember();
    }

    // What is in view stays there while something is added above it.
    keep(change) {
        const { scrollHeight, scrollTop } = this.view;
        change();
        this.view.scrollTop = scrollTop + this.view.scrollHeight - scrollHeight;
        this.following = false;
        this.look();
    }
}
