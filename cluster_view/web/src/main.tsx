import { render } from "preact";
import { App } from "./App";
import { Cluster } from "./cluster";
import "./style.css";

render(<App cluster={new Cluster()} />, document.getElementById("page")!);
