"use strict";
// Words of the page: the English text is the key. Names and sentences of the run itself are shown as they are.
const CHINESE = {
  "Overview": "概览", "Steps": "训练步", "Modules": "模块", "Operators": "算子", "Kernels": "核函数",
  "Timeline": "时间线", "Memory": "内存", "Communication": "通信", "Compare": "对比", "Missing": "未采集",
  "Advice": "建议", "Nothing stands out that could be done better.": "没有发现明显可以改进之处。",
  "Whole run": "整个运行", "How it ended": "结束方式", "Cost of profiling": "采集开销",
  "Step time": "单步耗时", "Phases of each step": "每步的阶段", "What bounds each step": "每步的瓶颈",
  "What bounds a step": "单步的瓶颈", "Phases of a steady step": "稳定步的阶段",
  "step": "步", "share": "占比", "time": "时间", "name": "名称", "count": "次数", "total": "总计", "self": "自身",
  "average": "平均", "longest": "最长", "module": "模块", "part": "部分", "type": "类型", "forward": "前向",
  "backward": "反向", "optimizer": "优化器", "calls": "调用", "bytes": "字节", "ranks": "通信组",
  "before": "之前", "after": "之后", "change": "变化", "Search": "搜索", "rows": "行", "of": "/",
  "Dark": "深色", "Light": "浅色", "Print": "打印", "median": "中位数", "first step": "首步",
  "slowest": "最慢", "steps": "步", "run": "运行", "Fit": "全部", "all": "全部",
  "No modules were recorded.": "没有采集到模块。", "No events were recorded.": "没有采集到事件。",
  "No memory was recorded.": "没有采集到内存。",
  "Everything that was asked for was collected.": "所要求的内容都已采集。", "largest change first": "变化最大者在前",
};
let language = (navigator.language || "en").startsWith("zh") ? "zh" : "en";
function word(text) { return language === "zh" && Object.hasOwn(CHINESE, text) ? CHINESE[text] : text; }
