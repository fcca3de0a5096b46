# SPDX-License-Identifier: MIT
"""Opens pages of tools/strata report in Chromium and uses them: python3 tests/tools/report/browser_check.py [--screenshots FOLDER]

It needs Debian's package chromium and dygraphs, and is a command of its own, because a browser is not among the packages of a build.
It fails at an error or a warning of the console, a request for anything but the page, a chart that is not drawn, or a control that
does nothing. In FOLDER it leaves pictures of the page in light, dark and as it is printed."""
import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
os.chdir(os.path.join(HERE, "../../.."))
from report_runs import MEMORY, RESOLVED, ReportRuns, ledger, step_record  # noqa: E402


class Browser:
    """Chromium without a window, which is told what to do by the DevTools protocol over pipes."""

    def __init__(self, program, profile):
        to_browser, self.writer = os.pipe()
        self.reader, from_browser = os.pipe()
        command = (f'exec "$0" --headless --no-sandbox --disable-gpu --user-data-dir="$1" --remote-debugging-pipe about:blank '
                   f"3<&{to_browser} 4>&{from_browser}")  # fmt: skip
        self.process = subprocess.Popen(["bash", "-c", command, program, profile], pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        target = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next_message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def next_message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.reader, 1 << 20)
            if not part:
                sys.exit("the browser ended")
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url="file://" + path)
        while self.value("document.readyState") != "complete":
            time.sleep(0.05)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            sys.exit(f"{expression}: {result['exceptionDetails']['exception']['description']}")
        return result["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **({"text": key} if len(key) == 1 and kind == "keyDown" else {}))

    def drag(self, identity, start, end):
        """Drags the mouse over a chart, from and to places in shares of its width and height."""
        box = self.value(f"(() => {{ const place = document.querySelector('#{identity} .chart'); place.scrollIntoView({{block: 'center'}});"
                         " const box = place.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; })()")  # fmt: skip
        for kind, (x, y), buttons in (("mouseMoved", start, 0), ("mousePressed", start, 1), ("mouseMoved", end, 1), ("mouseReleased", end, 0)):
            place = {"x": box[0] + x * box[2], "y": box[1] + y * box[3]}
            self.call("Input.dispatchMouseEvent", type=kind, **place, button="left", buttons=buttons, clickCount=1)

    def complaints(self):
        """Returns what the console said, and the requests for other things than a file."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Log.entryAdded":
                found.append(parameters["entry"]["text"])
            if event.get("method") == "Runtime.consoleAPICalled":
                found.append(str(parameters["args"]))
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            if event.get("method") == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith("file:"):
                found.append("a request for " + parameters["request"]["url"])
        return found


class Check(ReportRuns):
    browser, screenshots = None, None

    def picture(self, name):
        height = self.browser.value("document.documentElement.scrollHeight")
        self.browser.call("Emulation.setDeviceMetricsOverride", width=1250, height=height, deviceScaleFactor=1, mobile=False)
        data = self.browser.call("Page.captureScreenshot", format="png")["data"]
        self.keep(name + ".png", data)

    def keep(self, name, data):
        if self.screenshots:
            with open(os.path.join(self.screenshots, name), "wb") as file:
                file.write(base64.b64decode(data))

    def shown_steps(self):
        return [int(self.browser.value(f"document.getElementById('{name}').value")) for name in ("first", "last")]

    def drawn(self, identity):
        """Returns the picture on a chart's canvas, or "" if it is empty."""
        return self.browser.value(f"""(() => {{ const canvas = document.querySelector('#{identity} canvas'), empty = document.createElement('canvas');
            empty.width = canvas.width; empty.height = canvas.height;
            return canvas.toDataURL() === empty.toDataURL() ? '' : canvas.toDataURL(); }})()""")

    def ink(self, identity):
        """Returns the share of the points of a chart's canvas that have a color of a curve, whose channels differ."""
        return self.browser.value(f"""(() => {{ const canvas = document.querySelector('#{identity} canvas'), copy = document.createElement('canvas');
            copy.width = canvas.width; copy.height = canvas.height;
            const context = copy.getContext('2d', {{willReadFrequently: true}});
            context.drawImage(canvas, 0, 0);
            const all = context.getImageData(0, 0, copy.width, copy.height).data;
            let count = 0;
            for (let i = 0; i < all.length; i += 4) count += all[i + 3] > 50 && Math.abs(all[i] - all[i + 2]) > 30;
            return 4 * count / all.length; }})()""")

    def runs(self):
        facts = {"device": "a processor", "ranks": "2"}
        long = [step_record(step, loss=900.0 if step == 4321 else 3 + 1 / step, gradient_norm=1 + step % 7 / 9) for step in range(1, 10_001)]
        long += [{"step": step, "validation_loss": 3 + 2 / step} for step in range(1000, 10_001, 1000)]
        short = [step_record(step, loss=None if step % 100 == 0 else 4.0) for step in range(1, 2001)] + [{"step": 7, "bad_sample": "<b>"}]
        files = {"resolved_yaml": RESOLVED, "memory_txt": MEMORY, "kernels_txt": "op  root", "ledger__rank-0": ledger((0, facts))}
        failure = {"resolved_yaml": RESOLVED.replace("2  #", "4  #"), "error_json": '{"code": 5, "message": "two\\nlines"}'}
        return [self.run_folder("long", long, **files), self.run_folder("short <i>", short, **failure)]

    def use(self):
        page = self.report(*self.runs())
        browser, path = self.browser, os.path.join(self.folder, "page.html")
        browser.open(path)
        for chart in page.data["charts"]:
            self.assertTrue(self.drawn(chart["id"]), chart["id"])
        self.assertEqual(browser.value("document.querySelectorAll('main i, main b').length"), 0, "a name became markup")
        self.assertIn("short <i>", browser.value("document.querySelector('#loss .values').textContent"))
        for identity, least, most in (("validation_loss", 0.001, 0.02), ("gradient_norm", 0.3, 0.8), ("loss", 0.002, 0.03)):  # line, bars, spike
            self.assertTrue(least < self.ink(identity) < most, f"{identity}: {self.ink(identity):.4f}")
        self.picture("light")
        self.assertEqual(self.shown_steps()[0], 1)
        whole = self.shown_steps()
        browser.value("document.querySelector('#loss .chart').focus()")
        before = self.drawn("loss")
        browser.press("+")
        closer = self.shown_steps()
        self.assertLess(closer[1] - closer[0], 0.51 * (whole[1] - whole[0]))
        self.assertNotEqual(self.drawn("loss"), before)
        browser.press("ArrowRight")
        self.assertGreater(self.shown_steps()[0], closer[0])
        browser.press("0")
        self.assertEqual(self.shown_steps(), whole)
        browser.drag("loss", (0.4, 0.5), (0.7, 0.5))
        self.assertLess(self.shown_steps()[1] - self.shown_steps()[0], 0.5 * (whole[1] - whole[0]))
        dragged, heights = self.shown_steps(), browser.value("graphs[0].graph.yAxisRange()")
        browser.drag("loss", (0.5, 0.4), (0.5, 0.8))
        low, high = browser.value("graphs[0].graph.yAxisRange()")
        self.assertLess(high - low, 0.7 * (heights[1] - heights[0]))
        self.assertEqual(self.shown_steps(), dragged)
        browser.press("0")
        self.assertEqual(self.shown_steps(), whole)
        browser.value("first.value = 20000; first.dispatchEvent(new Event('change'))")
        self.assertEqual(self.shown_steps(), whole)
        browser.value("first.value = 4000; first.dispatchEvent(new Event('change'))")
        self.assertEqual(self.shown_steps()[0], 4000)
        browser.value("document.getElementById('all').click()")
        self.assertEqual(self.shown_steps(), whole)
        for action in ("document.querySelector('#loss input').click()", "smoothing.value = 5; smoothing.dispatchEvent(new Event('input'))"):
            before = self.drawn("loss")
            browser.value(action)
            self.assertNotEqual(self.drawn("loss"), before, action)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.picture("dark")
        self.assertEqual(browser.value("graphs[0].graph.getColors()[0]"), browser.value("color(0)"))
        browser.call("Emulation.setEmulatedMedia", features=[])
        browser.call("Emulation.clearDeviceMetricsOverride")
        self.keep("printed.pdf", browser.call("Page.printToPDF", printBackground=False)["data"])
        self.assertEqual(browser.complaints(), [])
        for records in ([step_record(1)], [step_record(1, loss=None)], []):  # little to draw
            self.report(self.run_folder(f"small{len(records)}{len(str(records))}", records, resolved_yaml=RESOLVED))
            browser.open(path)
            self.assertEqual(browser.complaints(), [], records)

    def see_errors(self):
        """The checks can fail: a changed script is not run, and the console says so."""
        self.report(*self.runs())
        path = os.path.join(self.folder, "page.html")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"use strict";', '"use strict"; '))
        self.browser.open(path)
        self.assertIn("Content Security Policy", str(self.browser.complaints()))
        self.assertEqual(self.browser.value("document.querySelectorAll('canvas').length"), 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--screenshots", help="a folder for pictures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        Check.browser, Check.screenshots = Browser(options.browser, profile), options.screenshots and os.path.abspath(options.screenshots)
        for name in ("use", "see_errors"):
            check = Check(name)
            check.setUp()
            try:
                getattr(check, name)()
            finally:
                check.tearDown()
            print(f"{name}: ok")
        Check.browser.process.kill()
        Check.browser.process.wait()


if __name__ == "__main__":
    main()
