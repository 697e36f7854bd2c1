-- Examples that help() shows, by the first word of a signature: lines that begin with "> " are typed at the prompt, the
-- others are what it prints. spec/help/help_spec.lua runs them.

local M = ...
local examples = {
  ["tide.tensor"] = [=[
> tide.tensor{{1, 2}, {3, 4}}
tensor([[1, 2],
        [3, 4]])]=],
  ["tide.zeros"] = [=[
> tide.zeros(2, 3)
tensor([[0., 0., 0.],
        [0., 0., 0.]])]=],
  ["tide.ones"] = [[
> tide.ones(3, {dtype = tide.int32})
tensor([1, 1, 1], dtype=tide.int32)]],
  ["tide.full"] = [=[
> tide.full({2, 2}, 7)
tensor([[7, 7],
        [7, 7]])]=],
  ["tide.arange"] = [[
> tide.arange(1, 6)
tensor([1, 2, 3, 4, 5])]],
  ["tide.linspace"] = [[
> tide.linspace(0, 1, 5)
tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])]],
  ["tide.eye"] = [=[
> tide.eye(2)
tensor([[1., 0.],
        [0., 1.]])]=],
  ["x:sum"] = [[
> tide.tensor{{1, 2}, {3, 4}}:sum(1)
tensor([4, 6])]],
  ["x:mean"] = [[
> tide.tensor{1., 2., 6.}:mean()
tensor(3.)]],
  ["x:max"] = [[
> tide.tensor{3, 9, 4}:max(1)
tensor(9)    tensor(2)]],
  ["x:min"] = [[
> tide.tensor{3, 9, 4}:min(1)
tensor(3)    tensor(1)]],
  ["x:argmax"] = [[
> tide.tensor{3, 9, 4}:argmax()
tensor(2)]],
  ["x:cumsum"] = [[
> tide.tensor{1, 2, 3}:cumsum(1)
tensor([1, 3, 6])]],
  ["x:view"] = [=[
> tide.arange(1, 7):view(2, 3)
tensor([[1, 2, 3],
        [4, 5, 6]])]=],
  ["x:reshape"] = [=[
> tide.arange(1, 7):reshape(3, -1)
tensor([[1, 2],
        [3, 4],
        [5, 6]])]=],
  ["x:permute"] = [[
> tide.zeros(2, 3, 4):permute(3, 1, 2).shape
{4, 2, 3}]],
  ["x:t"] = [=[
> tide.tensor{{1, 2}, {3, 4}}:t()
tensor([[1, 3],
        [2, 4]])]=],
  ["x:squeeze"] = [[
> tide.zeros(1, 3, 1):squeeze().shape
{3}]],
  ["x:unsqueeze"] = [[
> tide.zeros(3):unsqueeze(1).shape
{1, 3}]],
  ["x:expand"] = [=[
> tide.tensor{{1}, {2}}:expand(2, 3)
tensor([[1, 1, 1],
        [2, 2, 2]])]=],
  ["tide.cat"] = [[
> tide.cat({tide.ones(2), tide.zeros(1)})
tensor([1., 1., 0.])]],
  ["tide.stack"] = [=[
> tide.stack{tide.ones(2), tide.zeros(2)}
tensor([[1., 1.],
        [0., 0.]])]=],
  ["tide.where"] = [[
> x = tide.tensor{-1, 2, -3}
> tide.where(x:gt(0), x, 0)
tensor([0, 2, 0])]],
  ["x:matmul"] = [[
> a = tide.tensor{{1., 2.}, {3., 4.}}
> a:matmul(tide.tensor{1., 1.})
tensor([3., 7.])]],
  ["x:sort"] = [[
> tide.tensor{3, 1, 2}:sort()
tensor([1, 2, 3])    tensor([2, 3, 1])]],
  ["x:topk"] = [[
> tide.tensor{3, 9, 4}:topk(2)
tensor([9, 4])    tensor([2, 3])]],
  ["x:item"] = [[
> tide.tensor{1.5}:item() + 1
2.5]],
  ["x:totable"] = [[
> tide.tensor{1, 2}:totable()
{1, 2}]],
  ["x:to"] = [[
> tide.tensor{1.5, 2.5}:to(tide.int32)
tensor([1, 2], dtype=tide.int32)]],
  ["x:clone"] = [[
> x = tide.zeros(2)
> y = x:clone()
> y[1] = 5
> x
tensor([0., 0.])]],
  ["x:index_select"] = [[
> tide.tensor{10, 20, 30}:index_select(1, tide.tensor{3, 1})
tensor([30, 10])]],
  ["x:gather"] = [=[
> tide.tensor{{1, 2}, {3, 4}}:gather(2, tide.tensor{{2}, {1}})
tensor([[2],
        [3]])]=],
  ["x:masked_select"] = [[
> x = tide.tensor{1, -2, 3}
> x:masked_select(x:gt(0))
tensor([1, 3])]],
  ["x:nonzero"] = [=[
> tide.tensor{0, 5, 0, 7}:nonzero()
tensor([[2],
        [4]])]=],
  ["x:softmax"] = [[
> tide.tensor{1., 1., 2.}:softmax(1)
tensor([0.2119, 0.2119, 0.5761])]],
  ["x:std"] = [[
> tide.tensor{1., 2., 3.}:std()
tensor(1.)]],
  ["x:var"] = [[
> tide.tensor{1., 2., 3.}:var()
tensor(1.)]],
  ["x:norm"] = [[
> tide.tensor{3., 4.}:norm()
tensor(5.)]],
  ["x:flip"] = [[
> tide.tensor{1, 2, 3}:flip(1)
tensor([3, 2, 1])]],
  ["x:roll"] = [[
> tide.tensor{1, 2, 3}:roll(1)
tensor([3, 1, 2])]],
  ["x:tile"] = [[
> tide.tensor{1, 2}:tile(2)
tensor([1, 2, 1, 2])]],
  ["x:unfold"] = [=[
> tide.arange(1, 6):unfold(1, 3, 1)
tensor([[1, 2, 3],
        [2, 3, 4],
        [3, 4, 5]])]=],
  ["tide.einsum"] = [[
> a = tide.tensor{{1., 2.}, {3., 4.}}
> tide.einsum('ij,ij->i', a, a)
tensor([ 5., 25.])]],
  ["tide.kernel"] = [[
> twice = tide.kernel(function(i, x) return x[i] * 2 end)
> twice(3, tide.tensor{1., 2., 3.})
tensor([2., 4., 6.])]],
  ["tide.fuse"] = [[
> f = tide.fuse(function(x) return (x * 2 + 1):exp():sum() end)
> f(tide.zeros(3))
tensor(8.1548)]],
  ["tide.linalg.solve"] = [[
> a = tide.tensor{{2., 0.}, {0., 4.}}
> tide.linalg.solve(a, tide.tensor{2., 4.})
tensor([1., 1.])]],
  ["tide.linalg.inv"] = [=[
> tide.linalg.inv(tide.tensor{{2., 0.}, {0., 4.}})
tensor([[0.5000, 0.0000],
        [0.0000, 0.2500]])]=],
  ["tide.has"] = [[
> tide.has 'Tensor:sum', tide.has 'autograd'
true    false]],
  ["tide.is_tensor"] = [[
> tide.is_tensor(tide.ones(1)), tide.is_tensor(1)
true    false]],
  ["tide.allclose"] = [[
> tide.allclose(tide.ones(2), tide.ones(2) + 1e-9)
true]],
  ["tide.load_csv"] = [=[
> path = os.tmpname()
> tide.save_csv(path, tide.tensor{{1., 2.}, {3., 4.}}, {header = {'x', 'y'}})
> x, names = tide.load_csv(path)
> x
tensor([[1., 2.],
        [3., 4.]])
> names
{'x', 'y'}
> tide.load_csv(path, {columns = 'y'})
tensor([2., 4.])    {'y'}]=],
  ["tide.vec3"] = [[
> v = tide.vec3(1.5, 2, 0)
> v:length()
2.5]],
  ["x:histc"] = [[
> tide.tensor{1., 2., 2., 9.}:histc(3, 0, 9)
tensor([3., 0., 1.])]],
  ["x:unique"] = [[
> tide.tensor{3, 1, 3}:unique()
tensor([1, 3])]],
  ["x:index_add_"] = [[
> tide.zeros(3):index_add_(1, tide.tensor{1, 3, 3}, tide.ones(3))
tensor([1., 0., 2.])]],
  ["tide.clamp"] = [[
> tide.tensor{-2, 0.5, 3}:clamp(0, 1)
tensor([0.0000, 0.5000, 1.0000])]],
  ["tide.exp"] = [[
> tide.tensor{0., 1.}:exp()
tensor([1.0000, 2.7183])]],
  ["tide.add"] = [[
> x = tide.ones(2)
> x:add_(1)
tensor([2., 2.])
> x + 1
tensor([3., 3.])]],
  ["tide.bincount"] = [[
> tide.bincount(tide.tensor{1, 2, 2})
tensor([0, 1, 2])]],
  ["x:conv1d"] = [=[
> tide.tensor{{{1., 2., 3., 4.}}}:conv1d(tide.tensor{{{0.5, 0.5}}})
tensor([[[1.5000, 2.5000, 3.5000]]])]=],
  ["tide.meshgrid"] = [=[
> tide.meshgrid{tide.tensor{1, 2}, tide.tensor{3, 4}}
tensor([[1, 1],
        [2, 2]])
tensor([[3, 4],
        [3, 4]])]=],
  ["tide.square"] = [[
> tide.tensor{2., 3.}:square()
tensor([4., 9.])]],
  ["tide.abs"] = [[
> tide.tensor{-1.5, 2.}:abs()
tensor([1.5000, 2.0000])]],
  ["tide.sub"] = [[
> tide.tensor{5, 7}:sub(2)
tensor([3, 5])]],
  ["tide.mul"] = [[
> tide.tensor{5, 7}:mul(2)
tensor([10, 14])]],
  ["tide.div"] = [[
> tide.tensor{5, 7}:div(2)
tensor([2.5000, 3.5000])]],
  ["tide.pow"] = [[
> tide.tensor{2., 3.}:pow(2)
tensor([4., 9.])]],
  ["tide.sqrt"] = [[
> tide.tensor{4., 9.}:sqrt()
tensor([2., 3.])]],
  ["tide.log"] = [[
> tide.log(tide.tensor{1., 10.})
tensor([0.0000, 2.3026])]],
  ["tide.sin"] = [[
> tide.sin(tide.tensor{0., 1.})
tensor([0.0000, 0.8415])]],
  ["tide.tanh"] = [[
> tide.tensor{0., 1.}:tanh()
tensor([0.0000, 0.7616])]],
  ["tide.sigmoid"] = [[
> tide.tensor{0., 2.}:sigmoid()
tensor([0.5000, 0.8808])]],
  ["tide.relu"] = [[
> tide.tensor{-1., 2.}:relu()
tensor([0., 2.])]],
  ["tide.floor"] = [[
> tide.tensor{-1.5, 1.5}:floor()
tensor([-2.,  1.])]],
  ["tide.round"] = [[
> tide.tensor{0.4, 1.6}:round()
tensor([0., 2.])]],
  ["tide.sign"] = [[
> tide.tensor{-3, 0, 5}:sign()
tensor([-1,  0,  1])]],
  ["tide.maximum"] = [[
> tide.maximum(tide.tensor{1, 5}, tide.tensor{4, 2})
tensor([4, 5])]],
  ["tide.minimum"] = [[
> tide.minimum(tide.tensor{1, 5}, tide.tensor{4, 2})
tensor([1, 2])]],
  ["tide.remainder"] = [[
> tide.tensor{-3, 5}:remainder(4)
tensor([1, 1])]],
  ["tide.eq"] = [[
> tide.tensor{1, 2}:eq(tide.tensor{1, 3})
tensor([ True, False])]],
  ["tide.lt"] = [[
> tide.tensor{1, 2}:lt(2)
tensor([ True, False])]],
  ["tide.logical_and"] = [[
> tide.tensor{true, false}:logical_and(tide.tensor{true, true})
tensor([ True, False])]],
  ["tide.isnan"] = [[
> tide.tensor{1., 0/0}:isnan()
tensor([False,  True])]],
  ["tide.lerp"] = [[
> tide.lerp(tide.tensor{0., 10.}, tide.tensor{1., 20.}, 0.5)
tensor([ 0.5000, 15.0000])]],
  ["x:prod"] = [[
> tide.tensor{2, 3, 4}:prod()
tensor(24)]],
  ["x:any"] = [[
> tide.tensor{false, true}:any()
tensor(True)]],
  ["x:all"] = [[
> tide.tensor{false, true}:all()
tensor(False)]],
  ["x:amax"] = [[
> tide.tensor{{1, 5}, {7, 2}}:amax(2)
tensor([5, 7])]],
  ["x:median"] = [[
> tide.tensor{3., 1., 2.}:median()
tensor(2.)]],
  ["x:quantile"] = [[
> tide.tensor{1., 2., 3., 4.}:quantile(0.5)
tensor(2.5000)]],
  ["x:cumprod"] = [[
> tide.tensor{1, 2, 3}:cumprod(1)
tensor([1, 2, 6])]],
  ["x:diff"] = [[
> tide.tensor{1, 4, 9}:diff()
tensor([3, 5])]],
  ["x:argsort"] = [[
> tide.tensor{3, 1, 2}:argsort()
tensor([2, 3, 1])]],
  ["x:argmin"] = [[
> tide.tensor{3, 1, 2}:argmin()
tensor(2)]],
  ["x:count_nonzero"] = [[
> tide.tensor{0, 5, 7}:count_nonzero()
tensor(2)]],
  ["x:logsumexp"] = [[
> tide.tensor{0., 0.}:logsumexp(1)
tensor(0.6931)]],
  ["tide.searchsorted"] = [[
> tide.searchsorted(tide.tensor{1, 3, 5}, tide.tensor{2, 4})
tensor([2, 3])]],
  ["x:triu"] = [=[
> tide.ones(3, 3):triu()
tensor([[1., 1., 1.],
        [0., 1., 1.],
        [0., 0., 1.]])]=],
  ["x:tril"] = [=[
> tide.ones(2, 2):tril()
tensor([[1., 0.],
        [1., 1.]])]=],
  ["x:diag"] = [=[
> tide.tensor{1, 2}:diag()
tensor([[1, 0],
        [0, 2]])]=],
  ["x:diagonal"] = [[
> tide.tensor{{1, 2}, {3, 4}}:diagonal()
tensor([1, 4])]],
  ["x:outer"] = [=[
> tide.tensor{1, 2}:outer(tide.tensor{3, 4})
tensor([[3, 4],
        [6, 8]])]=],
  ["x:dot"] = [[
> tide.tensor{1., 2.}:dot(tide.tensor{3., 4.})
tensor(11.)]],
  ["x:mv"] = [[
> tide.tensor{{1., 2.}, {3., 4.}}:mv(tide.tensor{1., 1.})
tensor([3., 7.])]],
  ["x:bmm"] = [[
> tide.ones(2, 1, 3):bmm(tide.ones(2, 3, 1)).shape
{2, 1, 1}]],
  ["tide.zeros_like"] = [[
> tide.zeros_like(tide.tensor{1, 2})
tensor([0, 0])]],
  ["tide.logspace"] = [[
> tide.logspace(0, 2, 3)
tensor([  1.,  10., 100.])]],
  ["x:split"] = [[
> tide.arange(1, 6):split(2)
{tensor([1, 2]), tensor([3, 4]), tensor([5])}]],
  ["x:chunk"] = [[
> tide.arange(1, 5):chunk(2)
{tensor([1, 2]), tensor([3, 4])}]],
  ["x:repeat_interleave"] = [[
> tide.tensor{1, 2}:repeat_interleave(2)
tensor([1, 1, 2, 2])]],
  ["x:select"] = [[
> tide.tensor{{1, 2}, {3, 4}}:select(2, 1)
tensor([1, 3])]],
  ["x:narrow"] = [[
> tide.arange(1, 6):narrow(1, 2, 3)
tensor([2, 3, 4])]],
  ["x:take"] = [[
> tide.tensor{{1, 2}, {3, 4}}:take(tide.tensor{4, 1})
tensor([4, 1])]],
  ["x:scatter_"] = [[
> tide.zeros(4):scatter_(1, tide.tensor{2, 4}, tide.tensor{5., 7.})
tensor([0., 5., 0., 7.])]],
  ["x:masked_fill_"] = [[
> x = tide.tensor{1, -2, 3}
> x:masked_fill_(x:lt(0), 0)
tensor([1, 0, 3])]],
  ["x:transpose"] = [[
> tide.zeros(2, 3, 4):transpose(1, 3).shape
{4, 3, 2}]],
  ["x:movedim"] = [[
> tide.zeros(2, 3, 4):movedim(3, 1).shape
{4, 2, 3}]],
  ["x:flatten"] = [[
> tide.tensor{{1, 2}, {3, 4}}:flatten()
tensor([1, 2, 3, 4])]],
  ["x:numel"] = [[
> tide.zeros(2, 3):numel()
6]],
  ["x:dim"] = [[
> tide.zeros(2, 3):dim()
2]],
  ["tide.nan_to_num"] = [[
> tide.tensor{1., 0/0}:nan_to_num()
tensor([1., 0.])]],
  ["tide.cdist"] = [=[
> tide.cdist(tide.tensor{{0., 0.}}, tide.tensor{{3., 4.}, {0., 1.}})
tensor([[5., 1.]])]=],
  ["x:pad"] = [[
> tide.tensor{1, 2}:pad{1, 1}
tensor([0, 1, 2, 0])]],
  ["x:max_pool1d"] = [=[
> tide.tensor{{{1., 3., 2., 4.}}}:max_pool1d(2)
tensor([[[3., 4.]]])]=],
  ["x:histogram"] = [[
> tide.tensor{1., 2., 2.}:histogram(2)
tensor([1., 2.])    tensor([1.0000, 1.5000, 2.0000])]],
  ["tide.complex"] = [[
> tide.complex(tide.tensor{1.}, tide.tensor{2.})
tensor([1.+2.j])]],
  ["tide.fft.rfft"] = [[
> tide.fft.rfft(tide.tensor{1., 1., 1., 1.}).shape
{3}]],
  ["tide.linalg.det"] = [[
> tide.linalg.det(tide.tensor{{2., 0.}, {0., 3.}})
tensor(6.)]],
  ["tide.linalg.norm"] = [[
> tide.linalg.norm(tide.tensor{3., 4.})
tensor(5.)]],
  ["tide.linalg.trace"] = [[
> tide.linalg.trace(tide.tensor{{1., 2.}, {3., 4.}})
tensor(5.)]],
  ["tide.linalg.eigh"] = [[
> w = tide.linalg.eigh(tide.tensor{{2., 0.}, {0., 1.}})
> w
tensor([1., 2.])]],
  ["x:copy_"] = [[
> tide.zeros(2):copy_(tide.tensor{1., 2.})
tensor([1., 2.])]],
  ["x:fill_"] = [[
> tide.zeros(2):fill_(7)
tensor([7., 7.])]],
  ["x:size"] = [[
> tide.zeros(2, 3):size(2)
3]],
  ["x:stride"] = [[
> tide.zeros(2, 3):stride()
{3, 1}]],
  ["x:is_contiguous"] = [[
> tide.zeros(2, 3):t():is_contiguous()
false]],
  ["x:element_size"] = [[
> tide.zeros(1):element_size()
4]],
  ["x:kthvalue"] = [[
> tide.tensor{3, 1, 2}:kthvalue(2)
tensor(2)    tensor(3)]],
  ["tide.full_like"] = [[
> tide.full_like(tide.tensor{1, 2}, 7)
tensor([7, 7])]],
  ["tide.get_default_dtype"] = [[
> tide.get_default_dtype()
tide.float32]],
  ["tide.promote_types"] = [[
> tide.promote_types(tide.int32, tide.float32)
tide.float32]],
  ["tide.tril_indices"] = [=[
> tide.tril_indices(2, 2)
tensor([[1, 2, 2],
        [1, 1, 2]])]=],
  ["tide.combinations"] = [=[
> tide.combinations(tide.tensor{1, 2, 3})
tensor([[1, 2],
        [1, 3],
        [2, 3]])]=],
  ["tide.cartesian_prod"] = [=[
> tide.cartesian_prod{tide.tensor{1, 2}, tide.tensor{3, 4}}
tensor([[1, 3],
        [1, 4],
        [2, 3],
        [2, 4]])]=],
  ["tide.trapezoid"] = [[
> tide.trapezoid(tide.tensor{1., 2., 3.})
tensor(4.)]],
  ["x:log_softmax"] = [[
> tide.tensor{0., 0.}:log_softmax(1)
tensor([-0.6931, -0.6931])]],
  ["tide.kernel.interpret"] = [[
> tide.kernel.interpret(function(i, x) return x[i] / 2 end, 2, tide.tensor{1.5, 2.5})
tensor([0.7500, 1.2500])]],
  ["tide.cmdline"] = [[
> options = tide.cmdline('a title'):option('steps', 10, 'how many'):parse{'--steps', '5'}
> options.steps
5]],
  ["tide.serialize"] = [[
> tide.deserialize(tide.serialize{step = 3}).step
3]],
}

-- M.example(signature): the example of "tide.zeros(sizes...)" or "x:sum(...)", or nil.
function M.example(signature)
  local paren, blank = find(signature, "(") or #signature + 1, find(signature, " ") or #signature + 1
  return examples[sub(signature, 1, (paren < blank and paren or blank) - 1)]
end
