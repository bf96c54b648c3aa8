// Starts `wavewright lsp` and shows its dry runs beside the plan.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async function () {
  const [command, ...args] = vscode.workspace.getConfiguration("wavewright").get("command");
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  client = new LanguageClient(
    "wavewright",
    "wavewright",
    { command, args, options: { cwd: folder } },
    {
      documentSelector: [
        { scheme: "file", pattern: "**/*.{plan,job}.{yaml,yml,json}" },
        { scheme: "file", pattern: "**/config/{goals,workers,agents}/*.yaml" },
        { scheme: "file", pattern: "**/wavewright.{yaml,yml}" },
      ],
      synchronize: {
        fileEvents: vscode.workspace.createFileSystemWatcher("**/*.{py,yaml,json,j2}"),
      },
    },
  );
  await client.start();
};

exports.deactivate = () => client?.stop();
